package limiter

import (
	"maps"
	"slices"
	"time"

	"github.com/admitd/admitd/limiter/shape"
	"github.com/admitd/admitd/limiter/shed"
)

// Status is a snapshot of a gate. Its parts are read one after the other while
// requests pass, so sums may be off by those in between; every count only grows.
type Status struct {
	Name     string
	Mode     Mode
	Draining bool
	// Fallback is true while the clock cannot be trusted and limits are fixed.
	Fallback bool
	// Bucket is the gate's request rate; nil = unlimited.
	Bucket *BucketStatus
	// Total is the bound on permits over all partitions; 0 = none.
	Total int
	// InFlight counts the permits held over all partitions.
	InFlight int
	// Queued counts the requests that wait for a permit.
	Queued int
	// LastHint is the wait that the last refused request was told; 0 = none was.
	LastHint time.Duration
	// EndedTwice counts the permits that copies of them ended a second time, as far as
	// that was found out; see [Permit].
	EndedTwice uint64
	// PartitionCount is how many partitions there are, listed or not.
	PartitionCount int
	// Classes counts by class, and ShedThreshold is the last of 128 levels that is wholly
	// served, 32 for each class; 127 = nobody is shed. Without classes nil and 0.
	Classes       []ClassCounts
	ShedThreshold int
	// UnknownClasses counts the requests that named a class which there is not.
	UnknownClasses uint64
	// Shapes are those that took most of the backend's time, the greatest first; nil
	// where nothing is learned of them.
	Shapes []ShapeStatus
	// Partitions lists the named ones in the order of the policy, then
	// "default", "overflow", and those of clients' keys by name. A client may
	// choose a key that is the name of another: see [PartitionStatus.Key].
	Partitions []PartitionStatus
	// Labels sums the partitions under the names that metrics may carry. Those that the
	// configuration names no more are among them, without partitions and without a limit:
	// what they counted stays, and requests may be in flight in them.
	Labels []LabelStatus
}

// BucketStatus is a snapshot of a token bucket.
type BucketStatus struct {
	PerSecond, BurstSeconds float64
	Burst                   float64 // tokens
	Tokens                  float64 // tokens; negative when some are owed
	QueueDepth              int
	Waiting                 int // requests that sleep a debt
}

// PartitionStatus is a snapshot of one partition.
type PartitionStatus struct {
	Name string
	// Label is Name for partitions of the configuration, "default" for those
	// of clients' keys.
	Label string
	// Key is true for the partition of a client's key, which may bear the name
	// of one of the configuration.
	Key       bool
	Number    int // as in [Brief]
	Algorithm string
	Limit     int // in force: the fallback while the clock is not trusted
	InFlight  int
	Abandoned int // of those in flight, the ones whose callers have gone
	// WastedShare is the share of the work that has ended that was finished for
	// nobody, 0 to 1.
	WastedShare float64
	Queued      int
	BaseRTT     time.Duration // 0 = unknown
	Why         string        // why the limit last changed, as its algorithm words it; "" = it does not tell
	Bucket      *BucketStatus // nil = unlimited
	State       map[string]float64
	Counts      Counts
}

// LabelStatus sums partitions.
type LabelStatus struct {
	Label      string
	Algorithm  string
	Partitions int
	Limit      int
	Asked      int // Limit of those partitions alone that were asked for something
	InFlight   int
	Abandoned  int // of those in flight, the ones whose callers have gone
	// WastedShare is as in [PartitionStatus], over all of them.
	WastedShare float64
	Queued      int
	BaseRTT     time.Duration      // the largest; 0 = unknown
	State       map[string]float64 // of the only partition; nil when there are several
	Counts      Counts
}

// shownShapes is how many shapes a status lists.
const shownShapes = 20

// Status returns a snapshot of the gate, see [Gate.Page].
func (g *Gate) Status() Status { return g.Page(StatusOptions{}) }

// Page returns a snapshot of the gate with some of its partitions. It reads the
// counts of all, and words those that are listed; it does not slow decisions
// down.
func (g *Gate) Page(o StatusOptions) Status {
	now := g.clock.Now()
	t, gone := g.partitions.snapshot(now)
	s := Status{
		Name: g.name, Mode: t.policy.Mode, Draining: g.draining.Load(), Fallback: !g.clock.Trusted(),
		Bucket: bucketStatus(t.bucket, now), Total: int(t.def.whole()), Queued: int(g.queued.Load()),
		LastHint: time.Duration(g.lastHint.Load()), EndedTwice: g.endedTwice.Load(),
	}
	sums := &labelSums{rows: map[string]*labelSum{}, threshold: shed.TopLevel}
	page := pager{o: o}
	for _, spec := range t.configured() {
		sums.add(sums.row(spec), spec)
		page.first(spec)
	}
	keys := sums.row(t.def)
	for n, p := range t.keyed {
		spec := p.spec.Load()
		sums.add(keys, spec)
		page.add(spec)
		yieldNow(n)
	}
	keys.counts.add(&gone.counts, anyMark)
	keys.admitted += gone.admitted
	for _, spec := range page.list() {
		s.Partitions = append(s.Partitions, spec.status(now))
	}
	for _, label := range slices.Sorted(maps.Keys(gone.removed)) {
		sums.removed(label, gone.removed[label])
	}
	for _, label := range sums.order {
		row := sums.rows[label].status()
		s.PartitionCount += row.Partitions
		s.InFlight += row.InFlight
		s.Labels = append(s.Labels, row)
	}
	s.InFlight += int(gone.held)
	s.classify(t, sums)
	s.Shapes = g.Shapes(shownShapes)
	return s
}

// Queue returns how many requests wait for a token or a permit, and the bucket
// of the request rate, nil without one. It looks at no partition.
func (g *Gate) Queue() (waiting int, bucket *BucketStatus) {
	bucket = bucketStatus(g.partitions.table.Load().bucket, g.clock.Now())
	waiting = int(g.queued.Load())
	if bucket != nil {
		waiting += bucket.Waiting
	}
	return waiting, bucket
}

// classify tells what became of each class.
func (s *Status) classify(t *policyTable, sums *labelSums) {
	if t.policy.Classes == nil {
		return
	}
	var c classCounts
	exempted := uint64(0)
	for _, row := range sums.rows {
		c.add(&row.counts.classes)
		exempted += row.counts.exempted.Load()
	}
	s.Classes, s.UnknownClasses, s.ShedThreshold = c.snapshot(exempted), c.unknown.Load(), sums.threshold
}

// remains is what partitions that nobody finds any more leave in the sums.
type evictedCounts struct {
	counts   counts // of those of clients' keys
	admitted uint64
	held     int64 // permits of them

	removed map[string]*remainder // of those of the configuration, by label
}

// snapshot returns the table, and what remains of those that are not in it.
func (r *partitionTable) snapshot(now int64) (*policyTable, *evictedCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now >> coarseShift)
	rest := &evictedCounts{admitted: r.goneAdmitted, removed: make(map[string]*remainder, len(r.removed))}
	rest.counts.add(&r.gone, anyMark)
	for label, old := range r.removed {
		kept := of(rest.removed, label)
		kept.counts.add(&old.counts, anyMark)
		kept.admitted = old.admitted
	}
	for _, old := range r.retired {
		if old.part.isDynamic() {
			rest.held += old.part.tally.held()
			rest.counts.add(&old.part.counts, old.part.marks.get())
			rest.admitted += old.part.tally.granted()
		} else {
			of(rest.removed, old.part.label).add(old.part)
		}
	}
	return r.table.Load(), rest
}

// Load returns the permits held in the partitions that exist now, and how many
// may be held in them, bounded by the total. It allocates nothing, so that it
// may be told to whoever asks; see [Gate.Status] for everything else.
func (g *Gate) Load() (held, limit int64) {
	t := g.partitions.table.Load()
	add := func(s *partitionSpec) { held, limit = held+s.part.tally.held(), limit+s.bound() }
	for _, s := range t.named {
		add(s)
	}
	add(t.def)
	add(t.overflow)
	for _, p := range t.keyed {
		add(p.spec.Load())
	}
	if t.def.is(pooled) {
		limit = min(limit, t.def.whole())
	}
	return held, limit
}

// labelSums adds partitions up by label.
type labelSums struct {
	rows      map[string]*labelSum
	order     []string
	threshold int // the least of all
}

// labelSum is the sum of the partitions of one label.
type labelSum struct {
	label      string
	first      *partitionSpec // nil when the configuration names none
	partitions int
	limit      int64
	asked      int64 // the same of those that were asked
	held, left int64
	queued     int64
	baseRTT    time.Duration
	admitted   uint64
	counts     counts
}

// row returns the row of a partition's label.
func (l *labelSums) row(s *partitionSpec) *labelSum {
	row := l.rows[s.part.label]
	if row == nil {
		row = &labelSum{label: s.part.label, first: s}
		l.rows[s.part.label] = row
		l.order = append(l.order, s.part.label)
	}
	return row
}

// removed adds what removed partitions of a label leave.
func (l *labelSums) removed(label string, rest *remainder) {
	row := l.rows[label]
	if row == nil {
		row = &labelSum{label: label}
		l.rows[label] = row
		l.order = append(l.order, label)
	}
	row.held, row.left, row.queued = row.held+rest.held, row.left+rest.left, row.queued+rest.queued
	row.admitted += rest.admitted
	row.counts.add(&rest.counts, anyMark)
}

// add adds one partition to the row of its label.
func (l *labelSums) add(row *labelSum, s *partitionSpec) {
	p := s.part
	l.threshold = min(l.threshold, s.shed.Threshold())
	row.partitions++
	asked := int64(0)
	if p.tally.granted() > 0 || p.marks.get()&(endMark-1) != 0 {
		asked = s.bound()
	}
	if s.is(shared) {
		row.limit, row.asked = max(row.limit, s.bound()), max(row.asked, asked)
	} else {
		row.limit, row.asked = row.limit+s.bound(), row.asked+asked
	}
	row.held += p.tally.held()
	row.left += int64(max(p.left.Load(), 0))
	row.queued += int64(p.queued.Load())
	row.baseRTT = max(row.baseRTT, s.baseRTT())
	row.admitted += p.tally.granted()
	row.counts.add(&p.counts, p.marks.get())
}

// status words the sum.
func (l *labelSum) status() LabelStatus {
	s := LabelStatus{
		Label: l.label, Partitions: l.partitions, Limit: int(l.limit), Asked: int(l.asked),
		InFlight: int(l.held), Abandoned: int(l.left), Queued: int(l.queued), BaseRTT: l.baseRTT, Counts: l.counts.snapshot(),
	}
	s.Counts.Admitted = l.admitted
	s.WastedShare = s.Counts.wastedShare(s.InFlight)
	if l.first != nil {
		s.Algorithm = l.first.algorithm()
	}
	if l.partitions == 1 {
		s.State = l.first.state()
	}
	return s
}

// status words one partition.
func (s *partitionSpec) status(now int64) PartitionStatus {
	p := s.part
	st := PartitionStatus{
		Name: p.name, Label: p.label, Key: p.isDynamic(), Number: int(p.number), Algorithm: s.algorithm(), Limit: int(s.bound()),
		InFlight: int(p.tally.held()), Abandoned: int(max(p.left.Load(), 0)), Queued: int(p.queued.Load()),
		BaseRTT: s.baseRTT(), Bucket: bucketStatus(s.own, now), Why: s.why(), State: s.state(), Counts: p.counts.snapshot(),
	}
	st.Counts.Admitted = p.tally.granted()
	st.WastedShare = st.Counts.wastedShare(st.InFlight)
	return st
}

// bucketStatus reads a bucket, nil for an unlimited one.
func bucketStatus(b *Bucket, now int64) *BucketStatus {
	if b == nil {
		return nil
	}
	r := b.Rate()
	return &BucketStatus{
		PerSecond: r.PerSecond, BurstSeconds: r.Seconds(), Burst: b.Burst(), Tokens: b.Tokens(now),
		QueueDepth: r.QueueDepth, Waiting: b.Waiting(),
	}
}

// ShapeStatus is what is known of a shape.
type ShapeStatus = shape.Status

// Shapes returns the shapes that took most of the backend's time, the greatest
// first, most of them at most.
func (g *Gate) Shapes(most int) []ShapeStatus { return g.shapes.List(most) }
