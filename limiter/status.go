package limiter

import (
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/labels"
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
	// Partitions lists the named ones in the order of the policy, then
	// "default", "overflow", and those of clients' keys by name.
	Partitions []PartitionStatus
	// Labels sums the partitions under the names that metrics may carry.
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
	Label     string
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
	InFlight   int
	Abandoned  int // of those in flight, the ones whose callers have gone
	// WastedShare is as in [PartitionStatus], over all of them.
	WastedShare float64
	Queued      int
	BaseRTT     time.Duration      // the largest; 0 = unknown
	State       map[string]float64 // of the only partition; nil when there are several
	Counts      Counts
}

// Counts are totals since the gate was made.
type Counts struct {
	Admitted, Exempted uint64
	GaveUp             uint64 // callers that went away while they waited
	Abandoned          uint64 // callers that went away while the backend worked for them
	Wasted             uint64 // of these, the ones whose work has ended
	Dropped, Ignored   uint64 // permits ended with that outcome
	Rejected           map[labels.Reason]uint64
	WouldReject        map[labels.Reason]uint64 // shadow mode
	// RejectedBy and WouldRejectBy part the same by the limit that refused,
	// without zeros.
	RejectedBy, WouldRejectBy map[Cause]uint64
	// Discarded latencies, by reason: clock, epoch, too_long.
	Discarded map[string]uint64
}

// Received is every request that was decided or gave up.
func (c *Counts) Received() uint64 {
	n := c.Admitted + c.GaveUp
	for _, r := range c.Rejected {
		n += r
	}
	return n
}

// snapshot reads the counts.
func (c *counts) snapshot() Counts {
	s := Counts{
		Exempted: c.exempted.Load(), GaveUp: c.gaveUp.Load(), Abandoned: c.left.Load(), Wasted: c.wasted.Load(),
		Dropped: c.dropped.Load(), Ignored: c.ignored.Load(),
		Discarded: map[string]uint64{
			"clock": c.discarded[discardedClock].Load(), "epoch": c.discarded[discardedEpoch].Load(),
			"too_long": c.discarded[discardedTooLong].Load(),
		},
	}
	s.Rejected, s.RejectedBy = c.rejected.snapshot()
	s.WouldReject, s.WouldRejectBy = c.wouldReject.snapshot()
	return s
}

// snapshot reads the partition's counts.
func (p *partition) snapshot() Counts {
	s := p.counts.snapshot()
	s.Admitted = p.tally.granted()
	return s
}

// add sums o into c.
func (c *Counts) add(o Counts) {
	c.Admitted += o.Admitted
	c.Exempted += o.Exempted
	c.GaveUp += o.GaveUp
	c.Abandoned += o.Abandoned
	c.Wasted += o.Wasted
	c.Dropped += o.Dropped
	c.Ignored += o.Ignored
	c.Rejected = addMap(c.Rejected, o.Rejected)
	c.WouldReject = addMap(c.WouldReject, o.WouldReject)
	c.RejectedBy = addMap(c.RejectedBy, o.RejectedBy)
	c.WouldRejectBy = addMap(c.WouldRejectBy, o.WouldRejectBy)
	c.Discarded = addMap(c.Discarded, o.Discarded)
}

// addMap adds more to sum, which may be nil while there is nothing to add.
func addMap[K comparable](sum, more map[K]uint64) map[K]uint64 {
	if sum == nil && len(more) > 0 {
		sum = make(map[K]uint64, len(more))
	}
	for k, n := range more {
		sum[k] += n
	}
	return sum
}

// Status returns a snapshot of the gate. It takes time proportional to the
// number of partitions and does not slow decisions down.
func (g *Gate) Status() Status {
	now := g.clock.Now()
	g.mu.Lock()
	t := g.table.Load()
	g.forget(now >> coarseShift)
	lost := slices.Clone(g.retired)
	gone := g.gone.snapshot()
	gone.Admitted = g.goneAdmitted
	g.mu.Unlock()

	s := Status{
		Name: g.name, Mode: t.policy.Mode, Draining: g.draining.Load(), Fallback: !g.clock.Trusted(),
		Bucket: t.bucket.status(now), Total: int(t.total), Queued: int(g.waiting.Load()),
		LastHint: time.Duration(g.lastHint.Load()),
	}
	sum := newLabelSum()
	for _, p := range t.all() {
		ps := p.status(now)
		s.Partitions = append(s.Partitions, ps)
		s.InFlight += ps.InFlight
		sum.add(&ps)
	}
	sum.rows[DefaultPartition].Counts.add(gone)
	for _, r := range lost {
		s.InFlight += int(r.part.tally.held())
		if r.part.isDynamic() {
			sum.rows[DefaultPartition].Counts.add(r.part.snapshot())
		}
	}
	for _, label := range sum.order {
		row := sum.rows[label]
		row.WastedShare = share(row.Counts.Wasted, row.Counts.Admitted-min(row.Counts.Admitted, uint64(row.InFlight)))
		s.Labels = append(s.Labels, *row)
	}
	return s
}

// Load returns the permits held in the partitions that exist now, and how many
// may be held in them, bounded by the total. It allocates nothing, so that it
// may be told to whoever asks; see [Gate.Status] for everything else.
func (g *Gate) Load() (held, limit int64) {
	t := g.table.Load()
	add := func(p *partition) {
		held += p.tally.held()
		limit += p.limit(p.spec.Load())
	}
	for _, p := range t.named {
		add(p)
	}
	add(t.def)
	add(t.overflow)
	for _, x := range [2]*index{&t.keys, &t.recent} {
		for s := range x.entries() {
			if s.part.isDynamic() {
				add(s.part)
			}
		}
	}
	if t.total > 0 {
		limit = min(limit, t.total)
	}
	return held, limit
}

// share returns part of whole, 0 when there is nothing.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(float64(part)/float64(whole), 1)
}

// labelSum adds partitions up by label.
type labelSum struct {
	rows  map[string]*LabelStatus
	order []string
}

func newLabelSum() *labelSum { return &labelSum{rows: map[string]*LabelStatus{}} }

// add sums one partition into the row of its label.
func (l *labelSum) add(p *PartitionStatus) {
	row := l.rows[p.Label]
	if row == nil {
		row = &LabelStatus{Label: p.Label, Algorithm: p.Algorithm, State: p.State, Counts: (&counts{}).snapshot()}
		l.rows[p.Label] = row
		l.order = append(l.order, p.Label)
	} else {
		row.State = nil
	}
	row.Partitions++
	row.Limit += p.Limit
	row.InFlight += p.InFlight
	row.Abandoned += p.Abandoned
	row.Queued += p.Queued
	row.BaseRTT = max(row.BaseRTT, p.BaseRTT)
	row.Counts.add(p.Counts)
}

// all lists the partitions in the order of [Status.Partitions].
func (t *table) all() []*partition {
	list := slices.Clone(t.named)
	list = append(list, t.def, t.overflow)
	fixed := len(list)
	for _, x := range []*index{&t.keys, &t.recent} {
		for s := range x.entries() {
			if s.part.isDynamic() {
				list = append(list, s.part)
			}
		}
	}
	slices.SortFunc(list[fixed:], func(a, b *partition) int { return strings.Compare(a.name, b.name) })
	return list
}

// status reads one partition.
func (p *partition) status(now int64) PartitionStatus {
	spec := p.spec.Load()
	s := PartitionStatus{
		Name: p.name, Label: p.label, Limit: int(p.limit(spec)), InFlight: int(p.tally.held()),
		Abandoned: int(max(p.left.Load(), 0)), Queued: int(p.queued.Load()), Bucket: spec.bucket.status(now), Counts: p.snapshot(),
	}
	s.WastedShare = share(s.Counts.Wasted, s.Counts.Admitted-min(s.Counts.Admitted, uint64(s.InFlight)))
	if l, ok := spec.limit.(interface{ Algorithm() string }); ok {
		s.Algorithm = l.Algorithm()
	}
	if l, ok := spec.limit.(interface{ BaseRTT() time.Duration }); ok {
		s.BaseRTT = l.BaseRTT()
	}
	if l, ok := spec.limit.(interface{ State() map[string]float64 }); ok {
		s.State = l.State()
	}
	if l, ok := spec.limit.(interface{ Why() string }); ok {
		s.Why = l.Why()
	}
	return s
}

// status reads the bucket, nil for an unlimited one.
func (b *Bucket) status(now int64) *BucketStatus {
	if b == nil {
		return nil
	}
	r := b.Rate()
	return &BucketStatus{
		PerSecond: r.PerSecond, BurstSeconds: r.burstSeconds(), Burst: b.Burst(), Tokens: b.Tokens(now),
		QueueDepth: r.QueueDepth, Waiting: int(b.waiting.Load()),
	}
}
