package knee

import (
	"math"

	"github.com/admitd/admitd/algorithms/parts"
)

// bound takes a window in which requests were refused: share is the part of the
// demand that could not be served.
func (s *state) bound(o Options, w *window, share float64) string {
	r, x := w.mean(), w.rate()
	if s.trial.failed(w, s.base.mean, s.drain.slow*s.flow.verified, s.flow.verified) {
		return s.revoke(o, w)
	}
	if s.trial.isOver(w.now) {
		s.trial.doubt = 0
	}
	s.flow.smooth(x, w.elapsed, w.count())
	if r < s.base.mean && !s.others.proven {
		s.base.mean += 0.3 * (r - s.base.mean)
	}
	first := s.episode.fresh
	s.begin(o, share)
	s.episode.weigh(w, s.base.mean)
	switch {
	case s.episode.waiting < 0.5*s.room(o):
		return s.grow(o, w)
	case s.flow.verified == 0 && s.base.sure() && !s.base.held && x > 0.95*s.flow.before:
		// More is served than before, so the demand has risen to the capacity.
		s.flow.verified = s.flow.rate
	case s.drainsAlone(o, w, share):
		latency := math.Min(r, s.limit/x)
		if first {
			latency = r // to wait for: it is measured anew
		}
		s.startDrain(o, latency, x)
		s.drain.deep = first
		return parts.WhyDrain
	}
	return s.settle(o, w)
}

// drainsAlone reports that it is time for a drain of this gate's own. Who is told of
// others has the common moments.
func (s *state) drainsAlone(o Options, w *window, share float64) bool {
	return o.Gates == 1 && !o.Others && share > 0.05 && s.trial.isOver(w.now) && w.crossed(s.flow.every(w), o.Epoch)
}

// revoke takes back a verdict: it was a queue after all, perhaps that of other
// gates.
func (s *state) revoke(o Options, w *window) string {
	s.base.mean = math.Max(s.trial.doubt, math.Min(s.trial.measured, s.trial.least))
	s.flow.work = s.trial.wasWork
	s.trial.doubt, s.trial.until = 0, 0
	s.flow.rate, s.flow.verified = w.rate(), w.rate()
	s.limit = s.flow.rate*s.base.mean + s.queue(o)
	return parts.WhyQueue
}

// settle moves the limit to what throughput and the refused share ask for.
func (s *state) settle(o Options, w *window) string {
	before := s.limit
	busy := math.Max(s.flow.rate*s.base.mean, math.Min(s.flow.work, s.limit))
	if s.callers.patience == 0 && w.latency/w.elapsed < 0.8*s.limit {
		// Permits are idle between arrivals that come together: fewer would refuse more
		// of these, and serve less, so that ever fewer seemed to be needed. Where callers
		// leave, permits are idle for that.
		busy = math.Max(busy, s.limit*s.base.mean/math.Max(w.mean(), s.base.mean))
	}
	want := busy + s.queue(o)
	low := s.limit / 4
	switch {
	case s.episode.waiting < 0.3*s.room(o):
		low = s.limit // what does not wait is not to be cut
	case s.flow.verified == 0, s.others.proven && w.mean() > risen*s.others.before:
		low = 0.9 * s.limit // nothing is proven yet
	}
	s.limit = math.Max(low, math.Min(want, 2*s.limit))
	switch {
	case s.limit >= before:
		return parts.WhyBusy
	case s.queue(o) < s.room(o) && s.callers.wait(o) == s.callers.patience:
		return parts.WhyDepartures
	}
	return parts.WhyQueue
}

// grow follows the demand where there is no queue.
func (s *state) grow(o Options, w *window) string {
	q := s.queue(o)
	factor := 1.1
	if s.episode.waiting < 0.2*q {
		factor = 1.4
	}
	if !s.trial.isOver(w.now) || !s.base.sure() {
		factor = 2
	}
	demand := w.rate() / math.Max(1-w.share(s.limit, false), 0.01)
	if next := math.Min(factor*s.limit, demand*s.base.mean+q); next > s.limit {
		s.limit, s.episode.still = next, 0
	}
	return parts.WhyDemand
}

// free takes a window that refused next to nothing, or a burst.
func (s *state) free(o Options, w *window, share float64) string {
	if share > 0.01 {
		s.refused *= 0.6 // a burst is no overload
	} else {
		s.learn(o, w)
		if o.Gates == 1 && !o.Others && s.base.prove(w) {
			return s.check(o, w)
		}
	}
	want := s.flow.rate*s.base.mean + s.queue(o)
	used := math.Max(float64(o.InitialLimit), 1.2*want)
	if w.mean() < 1.2*s.base.mean { // what came together did not wait
		used = math.Max(used, float64(w.peak))
	}
	switch {
	case want > s.limit && float64(2*w.peak) >= s.limit:
		s.limit = math.Min(want, 1.5*s.limit)
		return parts.WhyRoom
	case s.limit > used:
		s.limit = math.Max(s.limit*fade(w.elapsed, 5e9), used)
		return parts.WhyUnused
	}
	return ""
}
