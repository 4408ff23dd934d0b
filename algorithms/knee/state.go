package knee

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

const usualSpan = int64(250 * time.Millisecond)

// state is all that a limit knows. It is a value: a window turns one into the
// next.
type state struct {
	limit float64
	known
	pace  pace
	drain drain
	trial trial
	drops drops
}

func newState(o Options) state {
	return state{
		limit: float64(o.InitialLimit),
		pace:  pace{span: usualSpan / 4, quota: 16, calm: int64(max(1, o.InitialLimit/4))},
	}
}

// decide is what a window teaches: pure arithmetic.
func decide(o Options, s state, w window) (state, string) {
	s.callers.learn(&w)
	var why string
	switch s.drain.phase {
	case flush:
		s.drain.flushed(&w)
		s.pace.span, s.pace.quota = 1, 4
		why = parts.WhyDrain
	case probe:
		why = s.probed(o, &w)
	default:
		why = s.gathered(o, &w)
	}
	s.limit = math.Min(math.Max(s.limit, float64(o.MinLimit)), float64(o.MaxLimit))
	if !s.finite() {
		return newState(o), parts.WhyReset
	}
	return s, why
}

// finite reports whether all that is computed with is a number. What is not would
// stay so for ever.
func (s *state) finite() bool {
	b, f, e, c, d, t := &s.base, &s.flow, &s.episode, &s.others, &s.drain, &s.trial
	sum := 0.0
	for _, v := range [...]float64{
		s.limit, s.refused, s.lasting, s.callers.patience, s.drops.ceiling,
		b.mean, b.known, b.seen, b.age, b.least, b.spread, b.contrast.calmLatency, b.contrast.busyLatency,
		f.rate, f.before, f.verified, f.memory, f.work,
		e.waiting, e.still,
		c.latency, c.before, c.stands, d.level, d.top, d.slow, d.n, d.t, d.l, t.doubt, t.wasWork,
	} {
		sum += v - v // 0, or not a number
	}
	return sum == 0
}

// gathered takes a window of ordinary work.
func (s *state) gathered(o Options, w *window) string {
	if cut := s.drops.hold(o, w, s.limit, s.enforced(o)); cut || w.count() == 0 {
		return parts.WhyDrops
	}
	s.base.age += w.elapsed
	share := w.share(s.limit, o.Queued)
	excess := share
	if w.watched && share > 0.01 {
		// What cannot be served, whatever is being refused to work off a queue.
		excess = math.Max(0.01, 1-w.count()/math.Max(w.offered, 1))
	}
	s.refused += (1 - fade(w.elapsed, 5e8)) * (excess - s.refused)
	s.lasting += (1 - fade(w.elapsed, math.Max(5e9, 100*s.base.mean))) * (excess - s.lasting)
	if s.base.mean == 0 {
		s.base.mean = w.mean()
	}
	s.flow.memory = math.Max(s.flow.memory*fade(w.elapsed, 60e9), w.rate())
	s.base.forget(w.elapsed)
	var why string
	if s.meet(o, w) {
		return parts.WhyDrain
	}
	s.episode.over = share > 0.01 && !s.burst(w, s.limit)
	if !s.episode.over {
		s.pace.span = max(usualSpan*2/5, int64(1.5*w.mean()))
		why = s.free(o, w, share)
	} else {
		s.pace.span = max(usualSpan, int64(2*s.base.mean))
		why = s.bound(o, w, excess)
	}
	if s.drain.phase == gather {
		s.pace.quota = 16
		s.pace.recalm(w)
		s.untilMoment(o, w)
	}
	return why
}

// enforced is the limit that requests meet.
func (s *state) enforced(o Options) int {
	limit := s.limit
	if s.drain.phase != gather {
		limit = s.drain.level
	}
	if s.drops.ceiling > 0 {
		limit = math.Min(limit, s.drops.ceiling)
	}
	return min(max(int(limit+0.5), o.MinLimit), o.MaxLimit)
}

// drops holds the limit down while the backend refuses.
type drops struct {
	ceiling float64 // 0 = none
}

// hold takes the drops of a window and reports whether they were many: the ceiling
// is then below what was enforced. Otherwise it rises until the limit is under it.
func (d *drops) hold(o Options, w *window, limit float64, enforced int) (cut bool) {
	total := w.count() + float64(w.dropped)
	if float64(w.dropped) <= 0.05*total || total < 1 {
		if d.ceiling > 0 {
			d.ceiling = math.Max(1.1*d.ceiling, d.ceiling+1)
			if d.ceiling >= limit {
				d.ceiling = 0
			}
		}
		return false
	}
	top := float64(enforced)
	d.ceiling = math.Max(float64(o.MinLimit), math.Min(0.9*top, top-1))
	return true
}
