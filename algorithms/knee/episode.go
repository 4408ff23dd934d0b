package knee

import "math"

// episode is a time in which requests are refused, window after window.
type episode struct {
	fresh bool // it begins with the next window of overload
	over  bool // the last window was one of overload

	waiting float64 // behind those at work, smoothed
	still   float64 // samples behind that

	markHeld, markLatency float64 // the most in flight, and its latency
	bestRate, bestHeld    float64 // the best throughput, and what was in flight for it
}

// await begins to follow how many wait, from a guess.
func (e *episode) await(guess float64) { e.waiting, e.still, e.markHeld = guess, 0, 0 }

// weigh follows how many wait behind those at work.
func (e *episode) weigh(w *window, base float64) {
	n := w.count()
	e.waiting += n / (e.still + n + 32) * (w.rate()*(w.mean()-base) - e.waiting)
	e.still = math.Min(e.still+n, 1000)
}

// noise is the standard error of what waits.
func (e *episode) noise(limit float64) float64 { return limit / math.Sqrt(e.still+64) }

// cutIntoWork compares with the most that was in flight in this episode. When
// the limit has come down and latency has not, the limit governs throughput: the
// baseline was too low.
func (e *episode) cutIntoWork(w *window) bool {
	held, r := w.held/w.count(), w.mean()
	if w.count() < 48 {
		return false // too few for a latency worth comparing
	}
	switch {
	case held > 1.05*e.markHeld:
		e.markHeld, e.markLatency = held, r
	case held > 0.95*e.markHeld:
		e.markLatency += 0.3 * (r - e.markLatency)
	case held < 0.7*e.markHeld:
		elasticity := math.Log(r/e.markLatency) / math.Log(held/e.markHeld)
		e.markHeld, e.markLatency = held, r
		return elasticity < 0.35
	}
	return false
}

// lostThroughput compares with the best of this episode: when throughput has come
// down in proportion with what is in flight, the limit has taken it.
func (e *episode) lostThroughput(w *window, rate float64) bool {
	held := w.held / w.count()
	switch {
	case rate > e.bestRate, held > 0.85*e.bestHeld && rate < 0.85*e.bestRate:
		e.bestRate, e.bestHeld = rate, held // the backend has changed
	case held < 0.7*e.bestHeld:
		elasticity := math.Log(rate/e.bestRate) / math.Log(held/e.bestHeld)
		e.bestRate, e.bestHeld = rate, held
		return elasticity > 0.7
	}
	return false
}
