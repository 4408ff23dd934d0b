package knee

import "math"

// episode is a time in which requests are refused, window after window.
type overload struct {
	fresh bool // it begins with the next window of overload
	over  bool // the last window was one of overload

	waiting float64 // behind those at work, smoothed
	still   float64 // samples behind that
}

// await begins to follow how many wait, from a guess.
func (e *overload) await(guess float64) { e.waiting, e.still = guess, 0 }

// weigh follows how many wait behind those at work.
func (e *overload) weigh(w *window, base float64) {
	n := w.count()
	e.waiting += n / (e.still + n + 32) * (w.rate()*(w.mean()-base) - e.waiting)
	e.still = math.Min(e.still+n, 1000)
}
