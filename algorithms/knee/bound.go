package knee

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// bound takes a window in which requests were refused: share is the part of the
// demand that could not be served.
func (s *state) bound(o Options, w *window, share float64) string {
	r, x := w.mean(), w.rate()
	if s.wrong(w) {
		return s.revoke(o, w)
	}
	if w.now >= s.growUntil {
		s.doubt = 0
	}
	s.smooth(x, w.elapsed, w.count())
	if r < s.base {
		s.base += 0.3 * (r - s.base)
	}
	first := s.fresh
	s.begin(o, share)
	s.weigh(w)
	switch {
	case s.flat(w) || s.cutIntoWork(w) || s.lostThroughput(w):
		s.base = math.Max(s.base, r)
		s.growUntil = w.now + int64(time.Second) + int64(4*s.base)
		return s.grow(o, w)
	case s.waiting+s.noise(w.now) < 0.5*s.room(o):
		return s.grow(o, w)
	case s.verified == 0 && s.sure() && x > 0.95*s.before:
		// More is served than before, so the demand has risen to the capacity.
		s.verified = s.rate
	case o.Gates == 1 && share > 0.05 && s.due(o, w):
		s.drain(o, w, math.Min(r, s.limit/x), x)
		s.deep = first
		return parts.WhyDrain
	}
	return s.settle(o)
}

// begin opens an episode: where the baseline is known, what could not be served
// is known as well, and there is nothing to smooth.
func (s *state) begin(o Options, share float64) {
	if !s.fresh {
		return
	}
	s.fresh, s.bestRate = false, 0
	if s.sure() {
		s.refused = share
	}
	s.waiting, s.still, s.markHeld = s.queue(o), 0, 0
}

// weigh follows how many wait behind those at work.
func (s *state) weigh(w *window) {
	n := w.count()
	s.waiting += n / (s.still + n + 32) * (w.rate()*(w.mean()-s.base) - s.waiting)
	s.still = math.Min(s.still+n, 1000)
}

// noise is the standard error of what waits. Right after a verdict that nothing
// does it is not asked for.
func (s *state) noise(now int64) float64 {
	if now < s.growUntil {
		return 0
	}
	return s.limit / math.Sqrt(s.still+64)
}

// due reports that the window crossed a moment at which to look whether the
// baseline still holds.
func (s *state) due(o Options, w *window) bool {
	every, end := s.every(w), w.now+o.Epoch
	return w.now >= s.growUntil && end/every != (end-int64(w.elapsed))/every
}

// every is the distance of these moments: about a latency at the beginning of an
// episode and when throughput has changed, hundreds of them later. It is a power
// of two parts of a second, and counted from the common zero, so that gates that
// know nothing of each other but see the same queue drain at the same moments.
func (s *state) every(w *window) int64 {
	want, every := 400*w.mean(), int64(4*time.Second)
	if s.verified == 0 || s.rate < 0.75*s.verified || s.rate > 1.35*s.verified {
		want, every = w.mean(), int64(time.Second/64)
	}
	for float64(every) < want && every < int64(32*time.Second) {
		every *= 2
	}
	return every
}

// wrong reports that a verdict which raised the limit does not hold: with more in
// flight latency went up, and throughput did not.
func (s *state) wrong(w *window) bool {
	if s.doubt == 0 || w.mean() < trialRatio*s.base {
		return false
	}
	more := w.latency / w.elapsed / (s.slow * s.verified) // in flight, by Little's law
	return more < 1.1 || math.Log(w.rate()/s.verified) < 0.3*math.Log(more)
}

// revoke takes back a verdict: it was a queue after all, perhaps that of other
// gates.
func (s *state) revoke(o Options, w *window) string {
	s.base, s.work, s.doubt, s.growUntil = s.doubt, s.wasWork, 0, 0
	s.rate, s.verified = w.rate(), w.rate()
	s.limit = s.rate*s.base + s.queue(o)
	return parts.WhyQueue
}

// settle moves the limit to what throughput and the refused share ask for.
func (s *state) settle(o Options) string {
	before := s.limit
	want := math.Max(s.rate*s.base, math.Min(s.work, s.limit)) + s.queue(o)
	low := s.limit / 4
	switch {
	case s.waiting < 0.3*s.room(o):
		low = s.limit // what does not wait is not to be cut
	case s.verified == 0:
		low = 0.9 * s.limit // nothing is proven yet
	}
	s.limit = math.Max(low, math.Min(want, 2*s.limit))
	switch {
	case s.limit >= before:
		return parts.WhyBusy
	case s.queue(o) < s.room(o) && s.trim(o) == s.patience:
		return parts.WhyDepartures
	}
	return parts.WhyQueue
}

// flat reports that the window itself shows latency not to follow what is in
// flight.
func (s *state) flat(w *window) bool {
	var c contrast
	c.add(w)
	e, ok := c.elasticity()
	return ok && e < 0.3
}

// cutIntoWork compares with the most that was in flight in this episode. When
// the limit has come down and latency has not, the limit governs throughput: the
// baseline was too low.
func (s *state) cutIntoWork(w *window) bool {
	held, r := w.held/w.count(), w.mean()
	if w.count() < 48 {
		return false // too few for a latency worth comparing
	}
	switch {
	case held > 1.05*s.markHeld:
		s.markHeld, s.markLatency = held, r
	case held > 0.95*s.markHeld:
		s.markLatency += 0.3 * (r - s.markLatency)
	case held < 0.7*s.markHeld:
		e := math.Log(r/s.markLatency) / math.Log(held/s.markHeld)
		s.markHeld, s.markLatency = held, r
		return e < 0.35
	}
	return false
}

// lostThroughput compares with the best of this episode: when throughput has come
// down in proportion with what is in flight, the limit has taken it.
func (s *state) lostThroughput(w *window) bool {
	held := w.held / w.count()
	switch {
	case s.rate > s.bestRate, held > 0.85*s.bestHeld && s.rate < 0.85*s.bestRate:
		s.bestRate, s.bestHeld = s.rate, held // the backend has changed
	case held < 0.7*s.bestHeld:
		e := math.Log(s.rate/s.bestRate) / math.Log(held/s.bestHeld)
		s.bestRate, s.bestHeld = s.rate, held
		return e > 0.7
	}
	return false
}

// smooth follows throughput over the last samples, and forgets them when it has
// moved by more than their noise.
func (s *state) smooth(x, elapsed, n float64) {
	weight := n / (n + 256)
	if d := x - s.rate; d*d*elapsed > 16*math.Max(s.rate, x) {
		weight = 1
	}
	s.rate += weight * (x - s.rate)
}

// grow follows the demand where there is no queue.
func (s *state) grow(o Options, w *window) string {
	q := s.queue(o)
	factor := 1.1
	if s.waiting < 0.2*q {
		factor = 1.4
	}
	if w.now < s.growUntil || !s.sure() {
		factor = 2
	}
	demand := w.rate() / math.Max(1-w.share(s.limit), 0.01)
	if next := math.Min(factor*s.limit, demand*s.base+q); next > s.limit {
		s.limit, s.still = next, 0
	}
	return parts.WhyDemand
}
