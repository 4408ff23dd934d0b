package knee

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// sure reports whether the baseline comes from more than the first moments.
func (s *state) sure() bool { return s.known >= 100 }

// drain lowers the limit to see what gives way.
func (s *state) drain(o Options, w *window, latency, rate float64) {
	level := s.limit / 4
	if s.verified > 0 {
		level = math.Max(level, 0.75*s.rate*s.base)
	} else if s.sure() {
		level = math.Max(level, math.Min(s.limit/2, s.work))
	}
	s.phase, s.level = flush, math.Max(level, float64(o.MinLimit))
	s.top, s.slow, s.began = rate, latency, w.now
	s.span, s.quota, s.calm = 1, int64(s.limit+0.5), -1
}

// meet has the gates that share a backend drain together, at common moments: the
// queue that one of them sees is made by all, and does not end when one alone
// holds back. They do so while latency is well above the lowest baseline of
// late, whether this one refuses or not; in the meantime a window ends where
// the next moment is.
func (s *state) meet(o Options, w *window) bool {
	if o.Gates == 1 {
		return false
	}
	if s.least *= math.Exp(w.elapsed / 120e9); s.least == 0 || s.base < s.least {
		s.least = s.base
	}
	moment := (w.now + o.Epoch) / meeting
	if moment == s.met || w.mean() < 2*s.least {
		return false
	}
	s.met = moment
	s.phase, s.level = flush, math.Max(s.limit/4, float64(o.MinLimit))
	s.top, s.slow, s.began, s.deep = w.rate(), w.mean(), w.now, false
	s.span, s.quota, s.calm = 1, int64(w.held/w.count()+1), -1
	return true
}

// untilMoment ends the next window where a moment is at which to drain.
func (s *state) untilMoment(o Options, w *window) {
	now := w.now + o.Epoch
	switch {
	case o.Gates > 1:
		if left := meeting - now%meeting; left < s.span {
			s.span, s.quota = left, 1
		}
	case s.over && w.now >= s.growUntil:
		every := s.every(w)
		if left := (now+s.span)/every*every - now; left > 0 {
			s.span = left
		}
	}
}

func (s *state) flushed(w *window) string {
	if s.deep && w.count() > 0 {
		s.top, s.slow = w.rate(), w.mean()
	}
	s.deep = false
	s.phase, s.n, s.t, s.l, s.offered, s.rejected = probe, 0, 0, 0, 0, 0
	s.span, s.quota = 1, 4
	return parts.WhyDrain
}

// probed counts what comes back under the lowered limit. Where the latency is
// the backend's own, a permit comes back once in that time, so k latencies
// bring k times what is out, and one more where it comes in bunches; from a queue
// they come back as fast as ever. The verdict falls in the geometric middle of
// the two, at once when that many are back, or when the time is over.
func (s *state) probed(o Options, w *window) string {
	s.n, s.t, s.l = s.n+w.count(), s.t+w.elapsed, s.l+w.latency
	s.offered, s.rejected = s.offered+w.offered, s.rejected+w.refused
	held := float64(s.enforced(o))
	cycles := math.Min(6, math.Max(2, math.Ceil(8/held)))
	f := math.Min(held/math.Max(s.top*s.slow, 1), 0.9)
	k := math.Max(cycles, s.t/s.slow)
	enough := held * math.Sqrt((k+1)*k/f)
	if f > 0.55 { // too close for that: take the middle of the means
		enough = held * k / math.Sqrt(f)
	}
	if s.n < enough && s.t < cycles*s.slow {
		s.span = min(int64(cycles*s.slow-s.t)+1, int64(20*time.Millisecond))
		s.quota = 1
		return parts.WhyDrain
	}
	if s.n == 0 || w.watched && s.rejected < 0.01*s.offered { // the demand has gone
		s.finish(o)
		return parts.WhyDrain
	}
	if s.n < enough && (s.n < 32 && s.t < 12*s.slow || s.n < 200 && s.t < 3*s.slow) {
		s.span, s.quota = 1, 4 // the verdict is clear; the baseline is not yet
		return parts.WhyDrain
	}
	x, r := s.n/s.t, s.l/s.n
	if s.t < 2*r && held >= 4 {
		// Too short for the mean of those that came back: the quick ones do so first.
		r = held / x
	}
	if s.n < enough {
		return s.slower(o, w, r)
	}
	s.top = (x + s.top) / 2
	wrong := !s.sure() || r < 0.6*s.base
	if o.Gates > 1 {
		s.work = 0 // of all of them
	}
	s.lower(r)
	if next := s.level / 4; wrong && s.enforced(o) > 1 {
		s.slow = r
		s.limit, s.level = s.level, next
		s.phase, s.span, s.quota = flush, 1, int64(s.limit+0.5)
		return parts.WhyQueue
	}
	if w.watched {
		s.refused = math.Max(s.refused, 1-s.top*s.t/s.offered)
	}
	s.finish(o)
	s.rate = s.top
	s.limit = s.rate*s.base + s.queue(o)
	return parts.WhyQueue
}

// lower takes the latency of a drain that proved a queue. Less than what is
// remembered as at work did nearly as well.
func (s *state) lower(r float64) {
	s.base = math.Min(math.Max(s.base, s.work/s.top), r)
	s.work = math.Min(s.work, 1.2*s.top*s.base)
}

// slower is told that throughput gave way under a lower limit, which therefore
// cuts into work, and that latency then was r.
func (s *state) slower(o Options, w *window, r float64) string {
	known, before := s.sure(), s.base
	calm := r > 0.7*s.slow && (r > 1.3*before || !known)
	if math.Abs(r-s.base) < 0.3*s.base || known && !calm {
		s.base += s.n / (s.n + 32) * (r - s.base)
	} else {
		s.base = r
	}
	s.finish(o)
	s.rate = s.top
	q := s.queue(o)
	s.wasWork, s.work = s.work, s.rate*s.base
	want := s.work + q
	if calm {
		demand := s.memory
		if w.watched {
			demand = math.Min(s.offered/s.t, s.memory)
		}
		want = math.Max(want, math.Min(demand*s.base+q, 2.5*s.limit))
		s.growUntil = w.now + int64(time.Second) + int64(4*s.base)
		s.waiting, s.least = 0, s.base
		s.remeasured++
		if s.seen >= 100 && s.base > trialRatio*before {
			s.doubt = before
		}
	}
	s.limit = want
	return parts.WhySlower
}

// finish ends a drain.
func (s *state) finish(o Options) {
	s.phase = gather
	s.contrast = contrast{}
	s.verified = s.top
	s.waiting, s.still, s.markHeld = s.queue(o), 0, 0
	s.known = math.Max(s.known, 100)
	s.span, s.quota = usualSpan, 16
	s.calm = max(1, int64(s.level/2))
}
