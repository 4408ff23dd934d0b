package measure

import (
	"maps"
	"slices"
)

// measures turn a window of a result into a number.
func measures() map[string]func(*Result, *Window) float64 {
	share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	return map[string]func(*Result, *Window) float64{
		"goodput":       func(_ *Result, w *Window) float64 { return float64(w.Good) / w.Seconds / w.Capacity },
		"ofCeiling":     func(_ *Result, w *Window) float64 { return w.ofCeiling() },
		"good":          func(_ *Result, w *Window) float64 { return share(w.Good, w.Offered) },
		"answered":      func(_ *Result, w *Window) float64 { return share(w.Answered, w.Offered) },
		"refused":       func(_ *Result, w *Window) float64 { return share(w.Refused, w.Offered) },
		"falseRefused":  func(_ *Result, w *Window) float64 { return share(w.FalseRefused, w.Offered) },
		"wasted":        func(_ *Result, w *Window) float64 { return share(w.Wasted, w.Wasted+w.Answered) },
		"failed":        func(_ *Result, w *Window) float64 { return share(w.Failed, w.Offered) },
		"attempts":      func(_ *Result, w *Window) float64 { return share(w.Attempts, w.Offered) },
		"leastGate":     func(_ *Result, w *Window) float64 { return w.LeastGate },
		"limit":         func(_ *Result, w *Window) float64 { return w.Limit },
		"p50":           func(_ *Result, w *Window) float64 { return w.P50 },
		"p99":           func(_ *Result, w *Window) float64 { return w.P99 },
		"neighbours":    func(_ *Result, w *Window) float64 { return share(w.NeighboursAnswered, w.Neighbours) },
		"neighboursP99": func(_ *Result, w *Window) float64 { return w.NeighboursP99 },
		"noisy": func(_ *Result, w *Window) float64 {
			return share(w.Answered-w.NeighboursAnswered, w.Offered-w.Neighbours)
		},
		"recover":    func(r *Result, _ *Window) float64 { return r.Recover },
		"leaked":     func(r *Result, _ *Window) float64 { return float64(r.Leaked) },
		"partitions": func(r *Result, _ *Window) float64 { return float64(r.Partitions) },
	}
}

// ofCeiling returns the good answers as a share of what is possible; -1 when
// that is unknown.
func (r *Window) ofCeiling() float64 {
	if r.Ceiling <= 0 {
		return -1
	}
	return float64(r.Good) / r.Seconds / r.Ceiling
}

// Names lists what criteria can measure, sorted:
//
//	goodput                  good answers per second over the healthy capacity
//	ofCeiling                good answers over those of the best fixed limit; -1 = unknown
//	good, answered           shares of the requests
//	refused, failed          shares of the requests
//	falseRefused             share refused while the backend could serve all
//	wasted                   share of what the backend finished that nobody waited for
//	attempts                 per request
//	leastGate                answers of the gate that had fewest, over the mean of all
//	limit                    in force on average, over all gates
//	p50, p99                 latency of answers, seconds
//	neighbours               share answered of the tenants that are not noisy
//	neighboursP99            latency of their answers, seconds
//	noisy                    share answered of the one that is
//	recover                  seconds from the trigger's end to the last bad step
//	leaked                   permits in flight when every request has ended
//	partitions               in one gate at the end
func Names() []string { return slices.Sorted(maps.Keys(measures())) }

// Value returns one measure of one window; "" = the first window. ok is false
// when there is no such measure or window.
func (r *Result) Value(measure, window string) (v float64, ok bool) {
	for i := range r.Windows {
		if window == "" || r.Windows[i].Name == window {
			return r.At(measure, i)
		}
	}
	return 0, false
}

// At returns one measure of the i-th window, in [0, len(r.Windows)). ok is false
// when there is no such measure.
func (r *Result) At(measure string, i int) (v float64, ok bool) {
	f := measures()[measure]
	if f == nil {
		return 0, false
	}
	return f(r, &r.Windows[i]), true
}
