package knee

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// What a window is for.
const (
	gather = iota // ordinary work
	flush         // the limit is lowered, and what was in flight before comes back
	probe         // throughput is measured under the lowered limit
)

// meeting is the time between the moments at which gates may drain together, ns.
const commonInterval = int64(4 * time.Second)

// longWindow is how long a window of ordinary work waits for its samples, ns.
const longWindow = int64(time.Second)

// drain is a moment in which the limit is lowered to see what gives way.
type drain struct {
	phase int     // gather = there is none
	level float64 // the limit meanwhile
	top   float64 // throughput before it
	slow  float64 // latency before it
	deep  bool    // it began without a throughput to compare with
	free  bool    // it began while nothing was refused
	met   int64   // when gates last drained together

	n, t, l           float64 // completions, time and latencies of the probe so far
	offered, rejected float64 // in it
}

// begin lowers the limit to level; latency and rate are what to compare with.
func (d *drain) begin(level, latency, rate float64) {
	d.phase, d.level, d.top, d.slow = flush, level, rate, latency
}

// flushed takes a window in which what was in flight before came back.
func (d *drain) flushed(w *window) {
	if d.deep && w.count() > 0 {
		d.top, d.slow = w.rate(), w.mean()
	}
	d.deep = false
	d.phase, d.n, d.t, d.l, d.offered, d.rejected = probe, 0, 0, 0, 0, 0
}

// add takes a window under the lowered limit.
func (d *drain) add(w *window) {
	d.n, d.t, d.l = d.n+w.count(), d.t+w.elapsed, d.l+w.latency
	d.offered, d.rejected = d.offered+w.offered, d.rejected+w.refused
}

// enough is how many must be back to speak of a queue, with held out at a time, and
// for how many latencies to look. Where the latency is the backend's own, a permit
// comes back once in that time, so k latencies bring k times what is out, and one
// more where it comes in bunches; from a queue they come back as fast as ever. The
// verdict falls in the geometric middle of the two.
func (d *drain) enough(held float64) (enough, cycles float64) {
	cycles = math.Min(6, math.Max(2, math.Ceil(8/held)))
	f := math.Min(held/math.Max(d.top*d.slow, 1), 0.9)
	k := math.Max(cycles, d.t/d.slow)
	if f > 0.55 { // too close for that: take the middle of the means
		return held * k / math.Sqrt(f), cycles
	}
	return held * math.Sqrt((k+1)*k/f), cycles
}

// patience is how long a window waits for its samples, ns.
func (d *drain) patience() int64 {
	switch d.phase {
	case flush:
		return int64(4*d.slow) + int64(50*time.Millisecond)
	case probe:
		return int64(8*d.slow) + int64(200*time.Millisecond)
	}
	return longWindow
}

// startDrain lowers the limit to see what gives way.
func (s *state) startDrain(o Options, latency, rate float64) {
	level := s.limit / 4
	if s.flow.verified > 0 {
		level = math.Max(level, 0.75*s.flow.rate*s.base.mean)
	} else if s.base.sure() {
		level = math.Max(level, math.Min(s.limit/2, s.flow.work))
	}
	s.drain.begin(math.Max(level, float64(o.MinLimit)), latency, rate)
	s.pace = pace{span: 1, quota: int64(s.limit + 0.5), calm: -1}
}

// check lowers the limit although nothing is refused, to half of what is in flight.
func (s *state) check(o Options, w *window) string {
	level := math.Min(s.limit, w.latency/w.elapsed) / 2
	s.drain.begin(math.Max(level, float64(o.MinLimit)), w.mean(), s.flow.rate)
	s.drain.deep, s.drain.free = false, true
	s.pace = pace{span: 1, quota: int64(w.peak), calm: -1}
	return parts.WhyDrain
}

// meet has the gates that share a backend drain together, at common moments: the
// queue that one of them sees is made by all, and does not end when one alone
// holds back. They do so while latency is well above the lowest baseline of
// late, whether this one refuses or not; in the meantime a window ends where
// the next moment is.
func (s *state) meet(o Options, w *window) bool {
	switch {
	case o.Others:
		return s.ask(o, w)
	case o.Gates == 1:
		return false
	}
	moment := (w.now + o.Epoch) / commonInterval
	if moment == s.drain.met || w.mean() < 2*s.base.least {
		return false
	}
	s.drain.met, s.drain.deep = moment, false
	s.drain.begin(math.Max(s.limit/4, float64(o.MinLimit)), w.mean(), w.rate())
	s.pace = pace{span: 1, quota: int64(w.held/w.count() + 1), calm: -1}
	return true
}

// untilMoment ends the next window where a moment is at which to drain.
func (s *state) untilMoment(o Options, w *window) {
	now := w.now + o.Epoch
	distance := commonInterval
	if o.Others {
		distance = s.others.every(w, &s.base)
	}
	switch {
	case o.Gates > 1, o.Others:
		if left := distance - now%distance; left < s.pace.span {
			s.pace.span, s.pace.quota = left, 1
		}
	case s.episode.over && s.trial.isOver(w.now):
		every := s.flow.every(w)
		if left := (now+s.pace.span)/every*every - now; left > 0 {
			s.pace.span = left
		}
	}
}

// probed takes a window under the lowered limit. The verdict falls at once when
// enough are back, or when the time is over.
func (s *state) probed(o Options, w *window) string {
	d := &s.drain
	d.add(w)
	if o.Others {
		return s.together(o, w)
	}
	held := float64(s.enforced(o))
	enough, cycles := d.enough(held)
	switch {
	case d.n < enough && d.t < cycles*d.slow:
		s.pace.span = min(int64(cycles*d.slow-d.t)+1, int64(20*time.Millisecond))
		s.pace.quota = 1
		return parts.WhyDrain
	case d.n == 0 || w.watched && d.rejected < 0.01*d.offered: // the demand has gone
		s.finish(o)
		return parts.WhyDrain
	case d.n < enough && (d.n < 32 && d.t < 12*d.slow || d.n < 200 && d.t < 3*d.slow):
		s.pace.span, s.pace.quota = 1, 4 // the verdict is clear; the baseline is not yet
		return parts.WhyDrain
	}
	x, r := d.n/d.t, d.l/d.n
	if d.t < 2*r && held >= 4 {
		// Too short for the mean of those that came back: the quick ones do so first.
		r = held / x
	}
	if d.n < enough {
		return s.slower(o, w, r)
	}
	return s.queued(o, w, x, r)
}

// queued is told that throughput stood under a lower limit, which therefore had cut
// into a queue only; x is that throughput and r the latency. Less than what is
// remembered as at work did nearly as well.
func (s *state) queued(o Options, w *window, x, r float64) string {
	d := &s.drain
	d.top = (x + d.top) / 2
	wrong := !s.base.sure() || r < 0.6*s.base.mean || d.free && r < stood*s.base.mean
	if d.free {
		s.lasting = 1 // the queue stood, and absorbed nothing: it is to stay short
	}
	if o.Gates > 1 {
		s.flow.work = 0 // of all of them
	}
	s.base.mean = math.Min(math.Max(s.base.mean, s.flow.work/d.top), r)
	s.flow.work = math.Min(s.flow.work, 1.2*d.top*s.base.mean)
	if next := d.level / 4; wrong && s.enforced(o) > 1 {
		s.limit = d.level
		d.begin(next, r, d.top)
		s.pace.span, s.pace.quota = 1, int64(s.limit+0.5)
		return parts.WhyQueue
	}
	if w.watched {
		s.refused = math.Max(s.refused, 1-d.top*d.t/d.offered)
	}
	s.finish(o)
	s.flow.rate = d.top
	s.limit = s.flow.rate*s.base.mean + s.queue(o)
	return parts.WhyQueue
}

// slower is told that throughput gave way under a lower limit, which therefore
// cuts into work, and that latency then was r.
func (s *state) slower(o Options, w *window, r float64) string {
	known, before := s.base.sure(), s.base.mean
	calm := r > 0.7*s.drain.slow && (r*(1-2*s.base.doubt(s.drain.n)) > 1.3*before || !known)
	if math.Abs(r-s.base.mean) < 0.3*s.base.mean || known && !calm {
		s.base.mean += s.drain.n / (s.drain.n + 32) * (r - s.base.mean)
	} else {
		s.base.mean = r
	}
	s.finish(o)
	s.flow.rate = s.drain.top
	q := s.queue(o)
	s.trial.wasWork, s.flow.work = s.flow.work, s.flow.rate*s.base.mean
	want := s.flow.work + q
	if calm {
		demand := s.flow.memory
		if w.watched {
			demand = math.Min(s.drain.offered/s.drain.t, s.flow.memory)
		}
		want = math.Max(want, math.Min(demand*s.base.mean+q, 2.5*s.limit))
		s.trial.grace(w.now, s.base.mean)
		s.episode.waiting, s.base.least = 0, s.base.mean
		s.base.remeasured++
		if s.base.seen >= sureAfter && s.base.mean > trialRatio*before {
			s.trial.doubt, s.trial.measured, s.trial.least = before, r, r
		}
	}
	s.limit = want
	return parts.WhySlower
}

// finish ends a drain.
func (s *state) finish(o Options) {
	s.drain.phase, s.drain.free = gather, false
	s.base.contrast, s.base.held, s.base.proven = contrast{}, false, true
	s.flow.verified = s.drain.top
	s.episode.await(s.queue(o))
	s.base.known = math.Max(s.base.known, sureAfter)
	s.pace = pace{span: usualSpan, quota: 16, calm: max(1, int64(s.drain.level/2))}
}
