package limiter

import (
	"iter"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/labels"
)

// The reasons why a latency is not fed to a Limit.
const (
	discardedClock = iota // zero, negative, or the clock is not trusted
	discardedEpoch        // the machine was suspended meanwhile
	discardedCount = iota
)

// counts are what the gate counts per partition. They only grow. The path of
// an admitted request pays for one of them, busy, which lies beside the tally.
type counts struct {
	busy             atomic.Int64  // ns that permits which ended as Success were held, added up
	dropped, ignored atomic.Uint64 // ended with that outcome
	left             atomic.Uint64 // gone while the backend worked
	wasted           atomic.Uint64 // those of them whose work has ended
	waits            atomic.Uint64 // admitted requests that waited
	waiting          atomic.Int64  // ns that they did, added up
	fates            causeTotals
	gaveUp           atomic.Uint64 // gone while waiting
	unserved         atomic.Uint64 // of these, the ones that waited for a permit
	exempted         atomic.Uint64
	unheard          atomic.Uint64 // those of wasted that ended as Success; not beside it, where it would move the fates
	discarded        [discardedCount]atomic.Uint64
	classes          classCounts
}

// plus adds what o has counted to c. Most counts of most partitions are 0, and to
// read one costs much less than an addition: a status sums 60 of each partition.
func plus(c, o *atomic.Uint64) {
	if n := o.Load(); n != 0 {
		c.Add(n)
	}
}

// add adds those of the counts of o that are marked.
func (c *counts) add(o *counts, marked countBit) {
	if n := o.busy.Load(); n != 0 {
		c.busy.Add(n)
	}
	if marked&endMark != 0 {
		plus(&c.dropped, &o.dropped)
		plus(&c.ignored, &o.ignored)
		plus(&c.left, &o.left)
		plus(&c.wasted, &o.wasted)
		plus(&c.unheard, &o.unheard)
		plus(&c.waits, &o.waits)
		if n := o.waiting.Load(); n != 0 {
			c.waiting.Add(n)
		}
	}
	for why := range marked.causes() {
		plus(&c.fates[why].rejected, &o.fates[why].rejected)
		plus(&c.fates[why].spared, &o.fates[why].spared)
	}
	if marked&restMark != 0 {
		plus(&c.exempted, &o.exempted)
		plus(&c.gaveUp, &o.gaveUp)
		for i := range o.discarded {
			plus(&c.discarded[i], &o.discarded[i])
		}
		c.classes.add(&o.classes)
	}
}

// mark is a set of counts: one bit for each cause, and one for those that lie
// together.
type countBit uint32

const (
	endMark  = countBit(1) << causeCount // from dropped to waiting
	restMark = endMark << 1              // from gaveUp on
	anyMark  = restMark<<1 - 1
)

// causes lists the causes in the set.
func (m countBit) causes() iter.Seq[cause] {
	return func(yield func(cause) bool) {
		for m &= endMark - 1; m != 0; m &= m - 1 {
			if !yield(cause(bits.TrailingZeros32(uint32(m)))) {
				return
			}
		}
	}
}

// marks tell which counts of a partition are other than 0, so that who reads a
// hundred thousand partitions reads one cache line of most. Who counts marks it
// afterwards, the first time.
type countBits struct{ all atomic.Uint32 }

// set marks counts.
func (m *countBits) set(some countBit) {
	if all := m.all.Load(); all|uint32(some) != all {
		m.all.Or(uint32(some))
	}
}

// get returns what is marked.
func (m *countBits) get() countBit { return countBit(m.all.Load()) }

// Counts are totals since the gate was made.
type Counts struct {
	Admitted, Exempted uint64
	GaveUp             uint64 // callers that went away while they waited
	Abandoned          uint64 // callers that went away while the backend worked for them
	Wasted             uint64 // of these, the ones whose work has ended
	Unheard            uint64 // of these, the ones that ended as Success: answered well, to nobody
	Dropped, Ignored   uint64 // permits ended with that outcome
	// Busy is the time for which permits that ended as Success were held, added
	// up: with [Counts.Succeeded] it is the mean latency between two snapshots,
	// in every mode.
	Busy time.Duration
	// Waits counts the admitted requests that waited in the gate, and Waited is
	// for how long, added up.
	Waits       uint64
	Waited      time.Duration
	Rejected    map[labels.Reason]uint64
	WouldReject map[labels.Reason]uint64 // shadow mode
	// RejectedBy and WouldRejectBy part the same by the limit that refused,
	// without zeros.
	RejectedBy, WouldRejectBy map[Cause]uint64
	// Discarded latencies, by reason: clock, epoch.
	Discarded map[string]uint64
}

// Succeeded is how many permits ended as Success, of a partition of which
// inFlight are held.
func (c *Counts) Succeeded(inFlight int) uint64 {
	rest := uint64(max(inFlight, 0)) + c.Dropped + c.Ignored
	return c.Admitted - min(c.Admitted, rest)
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
		Exempted: c.exempted.Load(), GaveUp: c.gaveUp.Load(), Abandoned: c.left.Load(), Wasted: c.wasted.Load(), Unheard: c.unheard.Load(),
		Dropped: c.dropped.Load(), Ignored: c.ignored.Load(), Busy: time.Duration(c.busy.Load()),
		Waits: c.waits.Load(), Waited: time.Duration(c.waiting.Load()),
		Discarded: map[string]uint64{
			"clock": c.discarded[discardedClock].Load(), "epoch": c.discarded[discardedEpoch].Load(),
		},
	}
	s.Rejected, s.RejectedBy = c.fates.snapshot((*causeTotal).refused)
	s.WouldReject, s.WouldRejectBy = c.fates.snapshot((*causeTotal).passed)
	return s
}

// wastedShare returns the share of the work that has ended that was for nobody.
func (c *Counts) wastedShare(inFlight int) float64 {
	ended := float64(c.Admitted) - float64(inFlight)
	if ended <= 0 {
		return 0
	}
	return min(float64(c.Wasted)/ended, 1)
}

// decision is what became of a request, as far as classes are counted.
type decision uint8

const (
	decidedAdmitted decision = iota
	decidedRejected
	decidedShed
	decisions
)

// classCounts count the decisions of each class; they stay zero where the policy
// has no classes.
type classCounts struct {
	by      [ranks][decisions]atomic.Uint64
	unknown atomic.Uint64
}

// add adds what o counted.
func (c *classCounts) add(o *classCounts) {
	for r := range c.by {
		for d := range c.by[r] {
			plus(&c.by[r][d], &o.by[r][d])
		}
	}
	plus(&c.unknown, &o.unknown)
}

// ClassCounts are totals of one class since the gate was made.
type ClassCounts struct {
	Class                              labels.Class
	Admitted, Rejected, Shed, Exempted uint64
}

// snapshot reads the counts of every class; exempted is those that are exempt.
func (c *classCounts) snapshot(exempted uint64) []ClassCounts {
	all := make([]ClassCounts, 0, ranks+1)
	for r := range c.by {
		n := &c.by[r]
		all = append(all, ClassCounts{
			Class: rank(r).Class(), Admitted: n[decidedAdmitted].Load(), Rejected: n[decidedRejected].Load(), Shed: n[decidedShed].Load(),
		})
	}
	return append(all, ClassCounts{Class: labels.ExemptClass, Exempted: exempted})
}

// classify counts what became of a request, where there are classes.
func (s *partitionSpec) classify(req *Request, why cause) {
	if s.is(classed) && !req.Exempt {
		s.count(s.part, req, why)
	}
}

// count counts what became of a request in p.
func (l *classOrder) count(p *partition, req *Request, why cause) {
	d := decidedRejected
	switch {
	case why == admitted:
		d = decidedAdmitted
	case why >= shedPartition && why <= shedTotal:
		d = decidedShed
	}
	c := &p.counts.classes
	c.by[l.rank(req)][d].Add(1)
	if req.Unclear {
		c.unknown.Add(1)
	}
	p.marks.set(restMark)
}

// Cause is why a request was refused and which limit refused it. The set is
// closed, see [Causes].
type Cause struct {
	Reason labels.Reason
	Limit  labels.Limit
}

// cause is a position in [Causes], or admitted.
type cause int

// admitted stands where there is no cause to refuse.
const admitted cause = -1

// The causes, in the order of [Causes].
const (
	rateOfPartition cause = iota
	rateOfIngress
	costOfPartition
	costOfIngress
	rateOfFleet
	costOfFleet
	fullPartition
	fullTotal
	latePartition
	lateTotal
	fullFleet
	lateFleet
	shedPartition
	shedTotal
	drainingIngress
	causeCount = iota
)

// Causes returns every cause for which a gate refuses, in a fixed order.
func Causes() []Cause {
	return []Cause{
		{labels.RequestRate, labels.ByPartition},
		{labels.RequestRate, labels.ByIngress},
		{labels.CostExceedsBurst, labels.ByPartition},
		{labels.CostExceedsBurst, labels.ByIngress},
		{labels.RequestRate, labels.ByFleet},
		{labels.CostExceedsBurst, labels.ByFleet},
		{labels.ConcurrencyLimit, labels.ByPartition},
		{labels.ConcurrencyLimit, labels.ByTotal},
		{labels.QueueTimeout, labels.ByPartition},
		{labels.QueueTimeout, labels.ByTotal},
		{labels.ConcurrencyLimit, labels.ByFleet},
		{labels.QueueTimeout, labels.ByFleet},
		{labels.Shed, labels.ByPartition},
		{labels.Shed, labels.ByTotal},
		{labels.Draining, labels.ByIngress},
	}
}

// fate is what one cause has done in a partition. What a refusal counts lies beside
// what it answers, on one cache line for the causes that come in floods.
type causeTotal struct {
	rejected atomic.Uint64             // refused
	told     atomic.Pointer[Rejection] // what they are told; made when first needed
	spared   atomic.Uint64             // let through in shadow mode
}

// refused returns how many requests were refused for the cause.
func (f *causeTotal) refused() uint64 { return f.rejected.Load() }

// passed returns how many would have been, and passed in shadow mode.
func (f *causeTotal) passed() uint64 { return f.spared.Load() }

// fates are those of every cause.
type causeTotals [causeCount]causeTotal

// forPermit adds up the causes for which a request found no permit.
func (f *causeTotals) forPermit(of func(*causeTotal) uint64) (n uint64) {
	for i := fullPartition; i <= shedTotal; i++ {
		n += of(&f[i])
	}
	return n
}

// sum adds up the marked causes.
func (f *causeTotals) sum(marked countBit) (refused, passed uint64) {
	for why := range marked.causes() {
		refused += f[why].refused()
		passed += f[why].passed()
	}
	return refused, passed
}

// snapshot reads the counts by reason and by cause; of the latter those that
// are not zero.
func (f *causeTotals) snapshot(of func(*causeTotal) uint64) (byReason map[labels.Reason]uint64, byCause map[Cause]uint64) {
	byReason = make(map[labels.Reason]uint64, len(labels.Reasons()))
	for _, reason := range labels.Reasons() {
		byReason[reason] = 0
	}
	for i, c := range Causes() {
		n := of(&f[i])
		byReason[c.Reason] += n
		if n == 0 {
			continue
		}
		if byCause == nil {
			byCause = map[Cause]uint64{}
		}
		byCause[c] = n
	}
	return byReason, byCause
}
