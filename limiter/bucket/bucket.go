// Package bucket holds token buckets and what is paid to them: a [Bill] is paid by
// several buckets or by none, and its [Receipt] gives back what was paid. A bucket
// whose rate several gates share spends what it was lent ([Lease]).
//
// It knows neither requests nor partitions. Time is monotonic nanoseconds.
package bucket

import (
	"math"
	"sync/atomic"
	"time"
)

// Bucket is a token bucket: it holds at most Burst tokens, starts full and
// refills at a constant rate. It is one 64-bit word that is changed by
// compare-and-swap, so callers never wait for each other, and it counts in
// integers, so that a bucket of N tokens admits exactly N concurrent callers.
//
// The word holds the units spent since the bucket was made; the units refilled
// since then follow from the time. This is the virtual scheduling form of the
// leaky bucket (ITU-T I.371), with the fill level kept in tokens instead of
// time so that no rate needs rounding to whole nanoseconds.
//
// A nil *Bucket is unlimited. All methods are safe for concurrent use.
type Bucket struct {
	state   atomic.Pointer[bucketState]
	waiting atomic.Int64 // requests that sleep a debt
	ledger  ledger       // of a rate that several gates share
}

// bucketState is one rate and the units spent under it. It is replaced as a
// whole when the rate changes.
type bucketState struct {
	spent atomic.Int64 // units; never more than maxDebt ahead of the refill
	_     [56]byte     // keep the hot word on a cache line of its own

	base     int64   // monotonic ns at which first were there
	first    int64   // units; the burst, or what a lease grants at once
	span     int64   // ns for which units flow in
	perNano  float64 // units per ns, about 1
	burst    int64   // units: the most that a request may cost
	brim     int64   // units above which the bucket overflows
	maxDebt  int64   // units
	low      int64   // units below which dry is told
	slack    int64   // units that flow in while a caller holds on to its reading of the clock
	scale    float64 // units per token
	perToken float64 // ns per token
	rate     Rate
	dry      *dryness // of a leased bucket; nil = nobody is told
}

// maxElapsed keeps the refill within 62 bits: 36 years in ns.
const maxElapsed = int64(1) << 60

// maxUnits bounds each count of units and each wait in ns, so that the sums of a
// decision, at most seven of them, stay within 63 bits.
const maxUnits = int64(1) << 60

// bounded converts a count of units or nanoseconds to an integer between -maxUnits
// and maxUnits; NaN is 0. A conversion that overflows has no defined result.
func bounded(x float64) int64 {
	if x >= -float64(maxUnits) && x <= float64(maxUnits) {
		return int64(x)
	}
	switch {
	case x > 0:
		return maxUnits
	case x < 0:
		return -maxUnits
	default:
		return 0
	}
}

// waitOf converts nanoseconds to a wait, rounding up; at most 36 years.
func waitOf(nanos float64) time.Duration { return time.Duration(bounded(math.Ceil(nanos))) }

// New returns a full bucket, or nil (unlimited) when r.PerSecond is 0 or
// less; one of a shared rate holds a gate's part of what flows in until it is
// leased tokens. now is monotonic nanoseconds.
func New(r Rate, now int64) *Bucket {
	if !(r.PerSecond > 0) {
		return nil
	}
	b := &Bucket{}
	if s := newBucketState(r, now); r.Sharers > 0 {
		b.state.Store(s.alone(now))
	} else {
		b.state.Store(s)
	}
	return b
}

// newBucketState returns a full state. A token is divided into so many units
// that about 1e9 of them flow per second: fine enough to tell waits to the
// nanosecond, coarse enough for the count to last for decades.
func newBucketState(r Rate, now int64) *bucketState {
	rate := min(max(r.PerSecond, 0.001), maxRate)
	burst := r.Burst()
	scale := math.Floor(min(max(1e9/rate, 1), 1e9))
	units := bounded(math.Floor(burst * scale))
	return &bucketState{
		base: now, first: units, span: maxElapsed, perNano: rate * scale / 1e9, burst: units, brim: units, low: math.MinInt64,
		maxDebt: bounded((burst + float64(min(r.QueueDepth, maxQueue))) * scale),
		slack:   int64(rate * scale),
		scale:   scale, perToken: 1e9 / rate, rate: r,
	}
}

// Take spends n tokens as of now. When there are too few it spends none and
// returns how long until there will be enough, at the present rate.
func (b *Bucket) Take(now int64, n float64) (wait time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	return b.state.Load().spend(now, n, 0)
}

// Spend takes n tokens whether or not they are there, for work that is counted
// but never refused. The debt is bounded by the burst and the queue depth.
func (b *Bucket) Spend(now int64, n float64) {
	if b == nil {
		return
	}
	s := b.state.Load()
	if _, ok := s.spend(now, n, s.maxDebt); !ok {
		s.spent.Store(s.refilled(now) + s.maxDebt)
	}
}

// Refund returns n tokens that were spent on work that did not run. The bucket
// never rises above its burst.
func (b *Bucket) Refund(n float64) {
	if b == nil || !(n > 0) {
		return
	}
	s := b.state.Load()
	s.spent.Add(-s.units(n))
}

// Tokens returns the tokens there are at now, negative when some are owed, and
// +Inf for a nil bucket.
func (b *Bucket) Tokens(now int64) float64 {
	if b == nil {
		return math.Inf(1)
	}
	return b.state.Load().level(now)
}

// Holds reports whether n tokens are there.
func (b *Bucket) Holds(now int64, n float64) bool {
	if b == nil {
		return true
	}
	s := b.state.Load()
	return s.refilled(now)-s.spent.Load() >= s.units(n)
}

// Full reports whether all tokens are there, so that a new bucket would be the
// same. Those of a shared rate are kept elsewhere.
func (b *Bucket) Full(now int64) bool {
	if b == nil {
		return true
	}
	s := b.state.Load()
	return (s.rate.Sharers > 0 || s.refilled(now)-s.spent.Load() >= s.burst) && b.waiting.Load() == 0
}

// Waiting returns how many sleep a debt.
func (b *Bucket) Waiting() int {
	if b == nil {
		return 0
	}
	return int(b.waiting.Load())
}

// Burst returns the depth in tokens, +Inf for a nil bucket.
func (b *Bucket) Burst() float64 {
	if b == nil {
		return math.Inf(1)
	}
	s := b.state.Load()
	return float64(s.burst) / s.scale
}

// Wait returns how long until n tokens can be taken; 0 when they are there.
func (b *Bucket) Wait(now int64, n float64) time.Duration {
	if b == nil {
		return 0
	}
	s := b.state.Load()
	missing := n - s.level(now)
	if missing <= 0 {
		return 0
	}
	return waitOf(missing * s.perToken)
}

// SetRate changes rate and depth and keeps the tokens that are there, up to the
// new depth. Requests that are being decided at that moment may still spend
// from the old state; at most one per processor does.
func (b *Bucket) SetRate(r Rate, now int64) {
	tokens := b.Tokens(now)
	s := newBucketState(r, now)
	if r.Sharers > 0 {
		b.share(now, s, tokens)
		return
	}
	if missing := s.burst - bounded(tokens*s.scale); missing > 0 {
		s.spent.Store(min(missing, s.burst+s.maxDebt))
	}
	b.ledger.turn(b, s)
}

// Rate returns the rate in force; the zero Rate for a nil bucket.
func (b *Bucket) Rate() Rate {
	if b == nil {
		return Rate{}
	}
	return b.state.Load().rate
}

// units converts tokens, rounding up so that no part of a cost is free.
func (s *bucketState) units(n float64) int64 {
	if n == 1 {
		return int64(s.scale)
	}
	return bounded(math.Ceil(n * s.scale))
}

// refilled returns the units that have flowed into the bucket until now, the
// units at the beginning included, and is never less than those. The product is a
// float: it is monotonic in now, the same for all callers of one instant, and
// off by nanoseconds after years.
func (s *bucketState) refilled(now int64) int64 {
	elapsed := now - s.base
	if elapsed <= 0 {
		return s.first
	}
	return s.first + int64(float64(min(elapsed, s.span))*s.perNano)
}

// spend takes n tokens when that leaves a debt of at most debt units.
func (s *bucketState) spend(now int64, n float64, debt int64) (time.Duration, bool) {
	cost := s.units(n)
	in := s.refilled(now)
	for {
		old := s.spent.Load()
		spent := max(old, in-s.brim) // what overflowed the brim is gone
		if spent > in+s.maxDebt+s.burst+s.slack {
			// More is owed than anyone may borrow, and than callers are late
			// by: the clock ran backwards. Go on from an empty bucket instead
			// of refusing until the clock has caught up.
			s.spent.CompareAndSwap(old, in)
			continue
		}
		left := in - spent - cost
		if left < -debt {
			return waitOf(float64(-left) / s.scale * s.perToken), false
		}
		if !s.spent.CompareAndSwap(old, spent+cost) {
			continue
		}
		if left < s.low {
			s.dry.tell()
		}
		if left >= 0 {
			return 0, true
		}
		return waitOf(float64(-left) / s.scale * s.perToken), true
	}
}

// level returns the tokens there are.
func (s *bucketState) level(now int64) float64 {
	return float64(min(s.refilled(now)-s.spent.Load(), s.brim)) / s.scale
}

// Change returns b at rate r: the same bucket where there is one, so that
// neither its tokens nor its waiters are lost.
func Change(b *Bucket, r Rate, now int64) *Bucket {
	switch {
	case !(r.PerSecond > 0):
		return nil
	case b == nil:
		return New(r, now)
	case b.Rate() != r:
		b.SetRate(r, now)
	}
	return b
}
