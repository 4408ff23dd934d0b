package limiter

import (
	"math"
	"sync/atomic"
	"time"
)

// The bounds of an automatic queue.
const (
	minAutoDepth = 4
	minAutoWait  = time.Millisecond
	// unknownAutoWait is how long a request waits while no latency is known:
	// longer than the gaps of a burst, shorter than anyone notices.
	unknownAutoWait = 10 * time.Millisecond
	// minStand is the least time for which a queue may stand.
	minStand = 100 * time.Millisecond
)

// autoQueue says whether a partition's automatic queue takes anybody.
//
// A queue absorbs bursts. One that stands is no burst: it makes everybody later
// by the same time, serves nobody more, and hides from the limit that there is
// too much (Nichols and Jacobson, Controlling Delay, 2012, call it a bad queue).
// So a queue that has not been empty for as long as four latencies without load,
// and at least 100 ms, is shut: who finds no permit is refused at once. It opens
// when nobody was turned away for the same time.
type autoQueue struct {
	since  int64        // monotonic ns since when it has not been empty; guarded by line.mu
	opens  atomic.Int64 // monotonic ns when it opens again, unless somebody is turned away before
	period atomic.Int64 // ns that it may stand
}

// shut reports whether the queue takes nobody, and keeps it so for another
// period. It is one load in the common case.
func (q *autoQueue) shut(now int64) bool {
	opens := q.opens.Load()
	if now >= opens {
		return false
	}
	if period := q.period.Load(); opens-now < period-period/8 {
		q.opens.Store(now + period)
	}
	return true
}

// stoodLocked notes that somebody wants to join, and shuts the queue when it has
// stood for too long. empty says that nobody waits. The caller holds line.mu.
func (q *autoQueue) stoodLocked(now int64, base time.Duration, empty bool) bool {
	period := int64(max(4*base, minStand))
	switch {
	case empty:
		q.since = now
	case now-q.since > period:
		q.period.Store(period)
		q.opens.Store(now + period)
		return true
	}
	return false
}

// room returns how many tickets may wait in a partition's queue, and for how
// long.
//
// An automatic queue is there for chance, not for overload. While a limit of L
// is served once, arrivals at that very rate stray from L by about √L, so it
// holds twice that, two standard deviations, and not less than 4. Nobody waits
// longer than two latencies without load, for by then all who were ahead have
// been served or the backend has slowed down, which is the limit's business and
// not the queue's; nor for so long that the objective could not be met.
func (s *partitionSpec) room() (depth int, wait time.Duration) {
	if !s.is(auto) {
		return s.depth, s.maxWait
	}
	base, wait := s.baseRTT(), unknownAutoWait
	if base > 0 {
		wait = max(2*base, minAutoWait)
	}
	if s.policy.Objective > 0 {
		wait = min(wait, s.policy.Objective-base)
	}
	limit := s.part.limit(s)
	return max(int(math.Ceil(2*math.Sqrt(float64(limit)))), minAutoDepth), wait
}
