package algorithms

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// remeasurer is a formula that can forget its baseline.
type remeasurer interface{ Remeasure() }

// summary is one closed window.
type summary struct {
	good, bad, slow int
	rtt             float64 // ns
	peak            int
	busy            float64 // permits held, on average over time
	elapsed         time.Duration
	refused         float64 // share of the demand; 0 = none, or unknown
}

// used is what the formula is told of the permits in flight under a limit. The
// peak alone is a poor witness of how much of a limit is needed: in a second of
// light traffic it is two or three times what is held on average, and a limit
// that grows on it for as long as nothing goes wrong is far too high when
// something does. A limit that was reached is needed, whatever the average.
func (s summary) used(limit int) int {
	if s.peak >= limit {
		return s.peak
	}
	return min(s.peak, int(math.Ceil(s.busy)))
}

// total is every sample of the window.
func (s summary) total() int { return s.good + s.bad }

// badFraction is the share of dropped and slow samples.
func (s summary) badFraction() float64 {
	return float64(s.bad+s.slow) / float64(max(1, s.total()))
}

// dropFraction is the share of dropped samples.
func (s summary) dropFraction() float64 { return float64(s.bad) / float64(max(1, s.total())) }

// tryClose closes the window when it is ready and no one else is at it.
func (w *Window) tryClose(now int64, full bool) {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	elapsed := now - w.start.Load()
	switch {
	case !w.started, elapsed < -int64(w.o.Max):
		// The first sample, or a clock that went back: begin here.
		w.started = true
		w.start.Store(now)
		w.cut.Store(math.MinInt64)
		return
	case !full && elapsed < w.span.Load():
		return // another sample has just closed it
	case !full && !w.readyLocked(time.Duration(elapsed)):
		return
	}
	w.start.Store(now)
	w.closeLocked(now, time.Duration(elapsed))
}

// readyLocked reports whether there are samples enough. An outage is not
// waited out: at Max, drops are enough when they are most of what there is.
func (w *Window) readyLocked(elapsed time.Duration) bool {
	good, bad := w.count()
	return good+bad >= w.o.Samples || (elapsed >= w.o.Max && bad > good)
}

// closeLocked takes the samples out, feeds the formula and publishes.
func (w *Window) closeLocked(now int64, elapsed time.Duration) {
	s := w.drainLocked(elapsed)
	w.last = s
	w.windows++
	if s.good > 0 {
		span := min(max(2*time.Duration(s.rtt), w.o.Min), w.o.Max)
		w.span.Store(int64(span))
	}
	before, found := w.Current(), w.plateau.found
	dropped := s.badFraction()-min(s.dropFraction(), w.background.allow(s, before)) > w.o.DropFraction
	after := w.feedLocked(s, dropped)
	if dropped {
		after = w.aboveFloorLocked(s, before, after)
		if after < before {
			w.cut.Store(now)
		}
	} else {
		after = w.doubtLocked(s, before, after)
	}
	w.current.Store(int64(after))
	w.change.Note(now, before, after, explain(s, dropped, w.plateau.found > found, before, after))
}

// drainLocked empties the window and sums it up.
func (w *Window) drainLocked(elapsed time.Duration) summary {
	s, held, bad := w.drain(elapsed, w.o.Quantile)
	if base := w.baseRTT(); s.good < s.bad && s.rtt < base {
		// Mostly drops: what little came back is no new baseline.
		s.rtt = base
	}
	if s.good == 0 {
		s.rtt = max(s.rtt, bad/float64(max(1, s.bad)))
	}
	s.rtt = max(1, s.rtt)
	if s.good > 0 {
		w.measured.Store(int64(s.rtt))
		if w.form.noise != nil {
			w.form.noise.add(s.rtt)
		}
	}
	offered, refused, _ := w.demand.Take()
	s.refused = min(float64(refused)/float64(max(1, offered)), 1)
	// Little's law: permits held are the time they were held over the time.
	s.busy = (held + bad) / max(float64(elapsed), 1)
	return s
}

// feedLocked tells the formula and returns the limit to enforce.
func (w *Window) feedLocked(s summary, dropped bool) int {
	if s.good > 0 || !w.form.ignoresDrop {
		used := s.peak
		if !w.form.peak {
			used = s.used(w.Current())
		}
		w.limit.OnSample(0, int64(s.rtt), used, dropped)
		w.raiseLocked(s, dropped)
	}
	estimated := w.limit.EstimatedLimit()
	if estimated < 0 || estimated > parts.MaxLimit {
		// The library's formulas can come to NaN. Keep the last good limit.
		w.faults++
		return w.Current()
	}
	if w.form.ignoresDrop {
		estimated = w.dropCap.hold(estimated, w.Current(), w.form.low, dropped)
	}
	return w.clamp(estimated)
}

// raiser is a formula whose limit can be raised from outside.
type raiser interface{ Raise(limit int) }

// raiseLocked helps a formula that grows by a constant, when the backend has
// become larger: where a tenth of the demand is refused and nothing waits, the
// limit is too low by a factor.
func (w *Window) raiseLocked(s summary, dropped bool) {
	base := w.baseRTT()
	f, ok := w.limit.(raiser)
	if !ok || dropped || s.refused < 0.1 || base == 0 || s.rtt > 1.15*base {
		return
	}
	f.Raise(min(w.clamp(w.limit.EstimatedLimit())*13/10, w.form.high))
}

// brake holds down the limit of a formula that ignores drops.
type dropCap struct{ ceiling float64 } // 0 = none

// hold lowers the ceiling to a tenth below what was enforced in a bad window, raises
// it by a tenth in a good one, and forgets it where it no longer binds. It returns
// the limit under it.
func (b *dropCap) hold(estimated, enforced, low int, dropped bool) int {
	switch {
	case dropped:
		top := float64(enforced)
		b.ceiling = max(float64(low), min(top*0.9, top-1))
	case b.ceiling > 0:
		b.ceiling = max(b.ceiling*1.1, b.ceiling+1)
	}
	if b.ceiling == 0 || b.ceiling >= float64(estimated) {
		b.ceiling = 0
		return estimated
	}
	return int(b.ceiling)
}

// floor is under a target that cannot be met.
type floor struct {
	limit  float64 // 0 = none
	origin float64 // what it returns to
}

// doubtLocked is told of a good window. It has the baseline measured anew when
// the plateau shows that it moved.
func (w *Window) doubtLocked(s summary, before, after int) int {
	if w.floor.limit > float64(after) {
		w.plateau.reset()
		return w.clamp(int(w.floor.limit)) // until the formula has come back up to it
	}
	w.floor.limit = 0
	if float64(after) >= w.floor.origin {
		w.floor.origin = 0
	}
	if f, ok := w.limit.(remeasurer); ok && w.plateau.moved(s, before, after, w.form.low) {
		f.Remeasure()
		return w.clamp(w.limit.EstimatedLimit())
	}
	return after
}

// aboveFloorLocked is told of a bad window. Where samples are over the target
// and the plateau shows that cutting does not make them faster, the target is
// out of the backend's reach, and AIMD would close the gate altogether. The
// limit then returns to a little above where the cutting began and tries again,
// as often as it takes.
func (w *Window) aboveFloorLocked(s summary, before, after int) int {
	if s.slow <= s.bad {
		w.plateau.reset() // drops cut for a reason of their own
		w.floor = floor{}
		return after
	}
	w.floor.limit *= 0.9
	after = max(after, int(w.floor.limit))
	if w.plateau.moved(s, before, after, 0) {
		w.floor.origin = max(w.floor.origin, float64(w.plateau.limit))
		if float64(w.plateau.limit) > 0.8*w.floor.origin {
			w.floor.origin = max(w.floor.origin*1.1, w.floor.origin+1) // used from the top, so there is more to ask for
		}
		w.floor.limit = w.floor.origin
		after = w.clamp(int(w.floor.limit))
	}
	return after
}

// clamp keeps a limit within the bounds.
func (w *Window) clamp(limit int) int { return min(max(limit, w.form.low), w.form.high) }

// explain is why a formula behind a window moved the limit.
func explain(s summary, dropped, remeasured bool, from, to int) string {
	switch {
	case remeasured:
		return parts.WhySlower
	case to > from:
		return parts.WhyRoom
	case dropped && s.bad >= s.slow:
		return parts.WhyDrops
	case dropped:
		return parts.WhyTimeouts
	default:
		return parts.WhyQueue
	}
}
