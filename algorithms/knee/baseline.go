package knee

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// sureAfter is how many samples of windows that refused nothing make a baseline
// more than an impression of the first moments.
const sureAfter = 100

// mostRise is how many times its lowest of late a baseline may become by what windows
// show that refused nothing. Latency and what is in flight rise together behind a
// queue and where processors are shared, so that they fit any baseline: a higher one
// takes a drain.
const mostRise = 1.5

// worthChecking is how many must be in flight on average for a baseline that was learned
// without a refusal to be told by a drain. A queue among fewer does little harm.
const worthChecking = 16

// baseline is the latency without a queue, and what it was learned from.
type baseline struct {
	mean       float64  // ns; 0 = unknown
	known      float64  // samples of windows that refused nothing, since the beginning
	seen       float64  // of these, those that no drain stands in for
	age        float64  // ns that were looked at
	least      float64  // the lowest of the last minutes
	spread     float64  // squared variation of a latency, as the means of windows show it; about 1 of exponential ones
	proven     bool     // it is no queue that stood from the beginning
	held       bool     // it is kept below what the last window showed: a drain is to tell
	contrast   contrast // of windows that refused next to nothing
	remeasured int      // how often the backend had become slower
}

// sure reports whether the baseline comes from more than the first moments.
func (b *baseline) sure() bool { return b.known >= sureAfter }

// recall takes a baseline that was learned before. What the first answers are
// like, of which the quick ones are back first, does not replace it.
func (b *baseline) recall(base time.Duration) {
	b.mean, b.known, b.age = float64(base), math.Max(b.known, sureAfter), float64(10*parts.MaxLatency)
	b.proven = true
}

// learn takes the latency of a window that refused next to nothing. Where it
// does not follow what is in flight there is no queue, and it is the baseline.
// Otherwise calm samples are fair where no more was in flight before them than
// is at work on average at the given rate; the others lower the baseline and
// hardly raise it.
func (b *baseline) learn(w *window, rate float64, shared bool) {
	b.known += w.count()
	b.seen += w.count()
	b.contrast.add(w)
	n, r, held := w.count(), w.mean(), w.held
	e, ok := b.contrast.elasticity()
	flat := ok && e < 0.4
	fair := flat
	if !fair && w.calm >= 4 {
		n, r, held = float64(w.calm), w.calmLatency/float64(w.calm), w.calmHeld
	}
	fair = !shared && (fair || held/n-1 <= rate*b.mean)
	weight := n / (n + 64)
	if !b.sure() || b.age < 5*w.mean() {
		weight, fair, r = 1, true, w.mean() // at first the quick ones are back
	}
	if b.sure() {
		// Windows below the mean alone: those above it may have a queue.
		d := math.Max(0, 1-r/b.mean)
		b.spread += n / (n + 500) * (2*n*d*d - b.spread)
	}
	if !fair && r > b.mean {
		if r > 2*b.mean {
			return
		}
		weight /= 8
	}
	b.mean += weight * (r - b.mean)
	b.held = false
	if fair && b.sure() && b.least > 0 && b.mean > mostRise*b.least {
		b.mean, b.held = mostRise*b.least, flat
	}
}

// doubt is the standard error of a mean of n latencies, as a share of it, beyond that
// of exponential ones.
func (b *baseline) doubt(n float64) float64 {
	return math.Sqrt(math.Max(0, b.spread-1) / math.Max(n, 1))
}

// prove takes a window that refused next to nothing, and reports whether a drain is to
// tell what was learned so far. It may be a queue that stood from the beginning, as that
// of callers who wait for their answers and outnumber the workers: not if little was in
// flight once, nor where latency stays the same whatever is in flight.
func (b *baseline) prove(w *window) (drain bool) {
	if b.proven || !b.sure() {
		return false
	}
	e, ok := b.contrast.elasticity()
	b.proven = ok && e < 0.4 || w.latency/w.elapsed < worthChecking
	return !b.proven
}

// lower takes a window whose latency, beyond its noise, is below the baseline, and
// which therefore has less of a queue than that was learned with.
func (b *baseline) lower(w *window) {
	if n := w.count(); n >= 8 && w.mean()*(1+3/math.Sqrt(n)) < b.mean {
		b.mean = w.mean()
	}
}

// forget lets the lowest baseline of late rise, over minutes.
func (b *baseline) forget(elapsed float64) {
	if b.known < 2*sureAfter || b.age < 10*b.mean {
		b.least = b.mean
		return
	}
	if b.least /= fade(elapsed, 120e9); b.least == 0 || b.mean < b.least {
		b.least = b.mean
	}
}

// contrast is what calm and busy samples of the last windows were like.
type contrast struct {
	calm, calmHeld, calmLatency float64
	busy, busyHeld, busyLatency float64
}

// add weighs in a window, and forgets the older ones over about 2000 samples.
func (c *contrast) add(w *window) {
	keep := math.Exp(-w.count() / 2000)
	c.calm = keep*c.calm + float64(w.calm)
	c.calmHeld = keep*c.calmHeld + w.calmHeld
	c.calmLatency = keep*c.calmLatency + w.calmLatency
	c.busy = keep*c.busy + float64(w.busy)
	c.busyHeld = keep*c.busyHeld + w.held - w.calmHeld
	c.busyLatency = keep*c.busyLatency + w.latency - w.calmLatency
}

// elasticity is how latency follows what is in flight: 1 where it is in
// proportion, as behind a queue, 0 where it does not care. Its error is about
// that of the means over the contrast; ok is false where that is too much.
func (c *contrast) elasticity() (e float64, ok bool) {
	if c.calm < 12 || c.busy < 12 {
		return 0, false
	}
	few, many := c.calmHeld/c.calm, c.busyHeld/c.busy
	spread := 2 * (many - few) / (many + few)
	if noise := math.Sqrt(1/c.calm + 1/c.busy); spread < 2.5*noise {
		return 0, false
	}
	fast, slow := c.calmLatency/c.calm, c.busyLatency/c.busy
	return 2 * (slow - fast) / (slow + fast) / spread, true
}
