package limiter

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/labels"
)

// The reasons why a latency is not fed to a Limit.
const (
	discardedClock   = iota // zero, negative, or the clock is not trusted
	discardedEpoch          // the machine was suspended meanwhile
	discardedTooLong        // beyond maxLatency
	discardedCount   = iota
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
	fates            fates
	gaveUp           atomic.Uint64 // gone while waiting
	exempted         atomic.Uint64
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

// add adds the counts of o.
func (c *counts) add(o *counts) {
	plus(&c.exempted, &o.exempted)
	plus(&c.gaveUp, &o.gaveUp)
	plus(&c.left, &o.left)
	plus(&c.wasted, &o.wasted)
	plus(&c.dropped, &o.dropped)
	plus(&c.ignored, &o.ignored)
	if n := o.busy.Load(); n != 0 {
		c.busy.Add(n)
	}
	plus(&c.waits, &o.waits)
	if n := o.waiting.Load(); n != 0 {
		c.waiting.Add(n)
	}
	c.classes.add(&o.classes)
	c.fates.add(&o.fates)
	for i := range o.discarded {
		plus(&c.discarded[i], &o.discarded[i])
	}
}

// Counts are totals since the gate was made.
type Counts struct {
	Admitted, Exempted uint64
	GaveUp             uint64 // callers that went away while they waited
	Abandoned          uint64 // callers that went away while the backend worked for them
	Wasted             uint64 // of these, the ones whose work has ended
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
	// Discarded latencies, by reason: clock, epoch, too_long.
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
		Exempted: c.exempted.Load(), GaveUp: c.gaveUp.Load(), Abandoned: c.left.Load(), Wasted: c.wasted.Load(),
		Dropped: c.dropped.Load(), Ignored: c.ignored.Load(), Busy: time.Duration(c.busy.Load()),
		Waits: c.waits.Load(), Waited: time.Duration(c.waiting.Load()),
		Discarded: map[string]uint64{
			"clock": c.discarded[discardedClock].Load(), "epoch": c.discarded[discardedEpoch].Load(),
			"too_long": c.discarded[discardedTooLong].Load(),
		},
	}
	s.Rejected, s.RejectedBy = c.fates.snapshot((*fate).refused)
	s.WouldReject, s.WouldRejectBy = c.fates.snapshot((*fate).passed)
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
