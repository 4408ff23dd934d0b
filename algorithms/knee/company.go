package knee

import (
	"math"
	"time"
)

const (
	// doubled is how many times the lowest baseline of late latency is where a
	// gate asks whether others make the queue that it sees.
	doubled = 2.0
	// alert is for how long it goes on asking when latency has come down, ns.
	alert = int64(4 * time.Second)
	// asking is the time between the moments at which all that ask drain, ns.
	asking = int64(2 * time.Second)
	// stood is how much latency may fall, or rise, in a drain that speaks of a
	// slower backend: what lowers it is a queue, and what raises it is others.
	stood = 0.85
	// alone is the elasticity of latency in one's own requests in flight that a gate
	// measures which makes all of the queue.
	alone = 0.7
	// leastPart is the least part of the queue that a gate takes for its own.
	leastPart = 1.0 / 8
)

// company is what a gate sees of others, of which it knows only that they may be
// there. Its zero is that of a gate that is not told even that: it never asks.
type company struct {
	until   int64   // the moment up to which it asks
	asked   int64   // when it last did
	asks    bool    // it does
	latency float64 // ns, smoothed over a second
	own     float64 // elasticity of latency in what this gate has in flight, when last known
}

// watch takes a window of ordinary work.
func (c *company) watch(w *window, b *baseline) {
	if b.sure() && w.mean() >= doubled*b.least {
		c.until = w.now + alert
	}
	c.asks = w.now < c.until
	if w.count() < 8 {
		return
	}
	c.latency += math.Min(1, w.elapsed/1e9) * (w.mean() - c.latency)
	if e, ok := b.contrast.elasticity(); ok {
		c.own = e
	}
}

// share is the part of the queue that this gate may take for its own. Latency
// follows what a gate has in flight by its part of the throughput: one that is
// alone makes all of it, one of four a quarter. Several that each took a whole
// queue would be over what callers wait for.
func (c *company) share(base float64) float64 {
	if c.latency <= doubled*base {
		return 1
	}
	return math.Min(1, math.Max(c.own/alone, leastPart))
}

// mostlyForeign reports that the others make more than half of the queue, so that
// what was at work of this gate's says nothing of the backend.
func (k *known) mostlyForeign() bool {
	return k.company.asks && k.company.share(k.base.mean) < 0.5
}

// ask has the gates that see the same latency drain together, at common moments,
// as those do that are told of each other: what is left of it is nobody's queue.
// A limit of one cannot be lowered, and what it would see is the others' drain.
func (s *state) ask(o Options, w *window) bool {
	s.base.forget(w.elapsed)
	c := &s.company
	c.watch(w, &s.base)
	now := w.now + o.Epoch
	moment := now / asking * asking
	if !c.asks || w.mean() < doubled*s.base.least || moment == c.asked || float64(now-moment) > w.mean()/2 {
		return false
	}
	c.asked = moment
	if s.limit < 1.7 {
		return false
	}
	s.drain.deep = false
	level := math.Max(s.limit/4, 0.75*s.flow.rate*s.base.mean)
	s.drain.begin(math.Max(level, float64(o.MinLimit)), w.mean(), w.rate())
	s.pace = pace{span: 1, quota: int64(w.held/w.count() + 1), calm: -1}
	return true
}

// confirm is told of the latency r of a drain. Where it is that of the baseline,
// the baseline is the lowest that there is, and what doubles it is a queue.
func (k *known) confirm(o Options, r float64) {
	if o.Others && math.Abs(r-k.base.mean) < 0.3*k.base.mean {
		k.base.least = k.base.mean
	}
}

// foreign reports that a drain which lowered throughput did not show a slower
// backend, as it would to a gate that is alone: latency did not stand, and what
// was at work, at this throughput, speaks against it. The queue is the others'.
func (k *known) foreign(d *drain, r float64) bool {
	moved := r < stood*d.slow || r > d.slow/stood
	return k.company.asks && k.base.sure() && moved && r > 1.3*math.Max(k.base.mean, k.flow.work/d.top)
}
