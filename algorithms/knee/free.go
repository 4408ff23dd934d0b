package knee

import (
	"math"

	"github.com/admitd/admitd/algorithms/parts"
)

func (s *state) gathered(o Options, w *window) string {
	if cut := s.drops(o, w); cut || w.count() == 0 {
		return parts.WhyDrops
	}
	s.age += w.elapsed
	share := w.share(s.limit)
	excess := share
	if w.watched && share > 0.01 {
		// What cannot be served, whatever is being refused to work off a queue.
		excess = math.Max(0.01, 1-w.count()/math.Max(w.offered, 1))
	}
	s.refused += (1 - math.Exp(-w.elapsed/5e8)) * (excess - s.refused)
	if s.base == 0 {
		s.base = w.mean()
	}
	s.memory = math.Max(s.memory*math.Exp(-w.elapsed/60e9), w.rate())
	var why string
	if s.meet(o, w) {
		return parts.WhyDrain
	}
	s.over = share > 0.01 && !s.burst(w)
	if !s.over {
		s.span = max(usualSpan*2/5, int64(1.5*w.mean()))
		why = s.free(o, w, share)
	} else {
		s.span = max(usualSpan, int64(2*s.base))
		why = s.bound(o, w, excess)
	}
	if s.phase == gather {
		s.quota = 16
		s.recalm(w)
		s.untilMoment(o, w)
	}
	return why
}

// burst reports that requests were refused while half of the permits were idle
// on average, by Little's law, and either no less was served than before or
// nothing waited: they came together, and they are no overload.
func (s *state) burst(w *window) bool {
	return w.latency/w.elapsed < 0.5*s.limit && (w.rate() > 0.7*s.before || w.mean() < 1.5*s.base)
}

// recalm moves the bound of calm samples to where a quarter of them is below it.
func (s *state) recalm(w *window) {
	if w.count() < 8 {
		return
	}
	step := max(1, s.calm/6)
	switch part := float64(w.calm) / w.count(); {
	case part < 0.15:
		s.calm = min(s.calm+step, int64(w.held/w.count())+1)
	case part > 0.4:
		s.calm = max(1, s.calm-step)
	}
}

func (s *state) free(o Options, w *window, share float64) string {
	if share > 0.01 {
		s.refused *= 0.6 // a burst is no overload
	} else {
		s.learn(o, w)
	}
	want := s.rate*s.base + s.queue(o)
	switch {
	case want > s.limit && float64(2*w.peak) >= s.limit:
		s.limit = math.Min(want, 1.5*s.limit)
		return parts.WhyRoom
	case s.limit > math.Max(float64(o.InitialLimit), 1.2*want):
		s.limit *= math.Exp(-0.05 * w.elapsed / float64(usualSpan))
		return parts.WhyUnused
	}
	return ""
}

// learn takes a window that refused next to nothing, and ends an episode of
// overload.
func (s *state) learn(o Options, w *window) {
	s.learnBase(w, o.Gates > 1)
	s.rate += 0.5 * (w.rate() - s.rate)
	s.before, s.verified, s.fresh = s.rate, 0, true
	if s.sure() {
		s.work *= math.Exp(-w.elapsed / 60e9)
		if more := s.rate*s.base - s.work; more > 0 {
			s.work += w.count() / (w.count() + 200) * more
		}
	}
}

// learnBase takes the latency of a window that refused next to nothing. Where it
// does not follow what is in flight there is no queue, and it is the baseline.
// Otherwise calm samples are fair where no more was in flight before them than
// is at work on average; the others lower the baseline and hardly raise it.
func (s *state) learnBase(w *window, shared bool) {
	s.known += w.count()
	s.seen += w.count()
	s.contrast.add(w)
	n, r, held := w.count(), w.mean(), w.held
	e, ok := s.contrast.elasticity()
	fair := ok && e < 0.4
	if !fair && w.calm >= 4 {
		n, r, held = float64(w.calm), w.calmLatency/float64(w.calm), w.calmHeld
	}
	fair = !shared && (fair || held/n-1 <= s.rate*s.base)
	weight := n / (n + 64)
	if !s.sure() || s.age < 5*w.mean() {
		weight, fair, r = 1, true, w.mean() // at first the quick ones are back
	}
	if !fair && r > s.base {
		if r > 2*s.base {
			return
		}
		weight /= 8
	}
	s.base += weight * (r - s.base)
}

// drops holds the limit down while the backend refuses.
func (s *state) drops(o Options, w *window) bool {
	total := w.count() + float64(w.dropped)
	if float64(w.dropped) <= 0.05*total || total < 1 {
		if s.ceiling > 0 {
			s.ceiling = math.Max(1.1*s.ceiling, s.ceiling+1)
			if s.ceiling >= s.limit {
				s.ceiling = 0
			}
		}
		return false
	}
	top := float64(s.enforced(o))
	s.ceiling = math.Max(float64(o.MinLimit), math.Min(0.9*top, top-1))
	return true
}
