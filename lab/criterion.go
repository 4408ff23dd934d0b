package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Best is the name in [Criterion.By] that stands for whichever of ours does
// best.
const Best = "best"

// Criterion is something that must hold, on the mean over all seeds.
type Criterion struct {
	// Variants that it holds for, or names of what they are combined from; none =
	// all.
	Variants []string `yaml:"variants"`
	// Except are those of them that it does not hold for.
	Except []string `yaml:"except"`
	// Window that is judged; "" = the first.
	Window string `yaml:"window"`
	// Measure is one of [Measures].
	Measure string `yaml:"measure"`
	// Bounds; one of them is set.
	AtLeast *float64 `yaml:"atLeast"`
	AtMost  *float64 `yaml:"atMost"`
	// By names contenders that must each keep it, or "best": one of ours must.
	// None = what the configuration has when nothing is chosen.
	By []string `yaml:"by"`
	// Why says where the bound comes from.
	Why string `yaml:"why"`
	// Known says where it is missed today.
	Known []Known `yaml:"known"`
}

// measures turn a window of a result into a number.
func measures() map[string]func(*Result, *WindowResult) float64 {
	share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	return map[string]func(*Result, *WindowResult) float64{
		"goodput":       func(_ *Result, w *WindowResult) float64 { return float64(w.Good) / w.Seconds / w.Capacity },
		"ofCeiling":     func(_ *Result, w *WindowResult) float64 { return w.ofCeiling() },
		"good":          func(_ *Result, w *WindowResult) float64 { return share(w.Good, w.Offered) },
		"answered":      func(_ *Result, w *WindowResult) float64 { return share(w.Answered, w.Offered) },
		"refused":       func(_ *Result, w *WindowResult) float64 { return share(w.Refused, w.Offered) },
		"falseRefused":  func(_ *Result, w *WindowResult) float64 { return share(w.FalseRefused, w.Offered) },
		"wasted":        func(_ *Result, w *WindowResult) float64 { return share(w.Wasted, w.Wasted+w.Answered) },
		"failed":        func(_ *Result, w *WindowResult) float64 { return share(w.Failed, w.Offered) },
		"attempts":      func(_ *Result, w *WindowResult) float64 { return share(w.Attempts, w.Offered) },
		"p50":           func(_ *Result, w *WindowResult) float64 { return w.P50 },
		"p99":           func(_ *Result, w *WindowResult) float64 { return w.P99 },
		"neighbours":    func(_ *Result, w *WindowResult) float64 { return share(w.NeighboursAnswered, w.Neighbours) },
		"neighboursP99": func(_ *Result, w *WindowResult) float64 { return w.NeighboursP99 },
		"recover":       func(r *Result, _ *WindowResult) float64 { return r.Recover },
		"leaked":        func(r *Result, _ *WindowResult) float64 { return float64(r.Leaked) },
		"partitions":    func(r *Result, _ *WindowResult) float64 { return float64(r.Partitions) },
	}
}

// ofCeiling returns the good answers as a share of what is possible; -1 when
// that is unknown.
func (r *WindowResult) ofCeiling() float64 {
	if r.Ceiling <= 0 {
		return -1
	}
	return float64(r.Good) / r.Seconds / r.Ceiling
}

// Measures lists what criteria can measure, sorted:
//
//	goodput                  good answers per second over the healthy capacity
//	ofCeiling                good answers over those of the best fixed limit; -1 = unknown
//	good, answered           shares of the requests
//	refused, failed          shares of the requests
//	falseRefused             share refused while the backend could serve all
//	wasted                   share of what the backend finished that nobody waited for
//	attempts                 per request
//	p50, p99                 latency of answers, seconds
//	neighbours               share answered of the tenants that are not noisy
//	neighboursP99            latency of their answers, seconds
//	recover                  seconds from the trigger's end to the last bad step
//	leaked                   permits in flight when every request has ended
//	partitions               in one gate at the end
func Measures() []string { return slices.Sorted(maps.Keys(measures())) }

// Value returns one measure of one window; "" = the first window. ok is false
// when there is no such measure or window.
func (r *Result) Value(measure, window string) (v float64, ok bool) {
	f := measures()[measure]
	for i := range r.Windows {
		if f != nil && (window == "" || r.Windows[i].Name == window) {
			return f(r, &r.Windows[i]), true
		}
	}
	return 0, false
}

// Holds reports whether a value is within the bound.
func (c *Criterion) Holds(v float64) bool {
	return (c.AtLeast == nil || v >= *c.AtLeast) && (c.AtMost == nil || v <= *c.AtMost)
}

// String returns the bound as text.
func (c *Criterion) String() string {
	text := c.subject()
	if c.AtLeast != nil {
		return fmt.Sprintf("%s ≥ %g", text, *c.AtLeast)
	}
	return fmt.Sprintf("%s ≤ %g", text, *c.AtMost)
}

// subject returns what is judged as text.
func (c *Criterion) subject() string {
	if c.Window == "" {
		return c.Measure
	}
	return c.Measure + " (" + c.Window + ")"
}

// who returns By with its default.
func (c *Criterion) who() []string {
	if len(c.By) == 0 {
		return []string{queuedName}
	}
	return c.By
}

// appliesTo reports whether the criterion is about a variant.
func (c *Criterion) appliesTo(v *Variant) bool {
	return (len(c.Variants) == 0 || slices.ContainsFunc(c.Variants, v.named)) && !slices.ContainsFunc(c.Except, v.named)
}

// validate reports every problem.
func (c *Criterion) validate(s *Scenario) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pass: "+format, args...)) }
	if measures()[c.Measure] == nil {
		fail("measure must be one of %v (%s)", Measures(), c.Measure)
	}
	if (c.AtLeast == nil) == (c.AtMost == nil) {
		fail("%s: exactly one of atLeast and atMost must be set", c.Measure)
	}
	known := append([]string{Best, "none", tunedName, queuedName}, Ours()...)
	for _, name := range c.who() {
		if !slices.Contains(known, name) {
			fail("%s: by must be of %v (%s)", c.Measure, known, name)
		}
	}
	for _, name := range slices.Concat(c.Variants, c.Except) {
		if !slices.ContainsFunc(s.Variants, func(v Variant) bool { return v.named(name) }) {
			fail("%s: there is no variant %s", c.Measure, name)
		}
	}
	for _, v := range s.Variants {
		run := s.apply(&v)
		has := slices.ContainsFunc(run.Windows, func(w Window) bool { return w.Name == c.Window })
		if c.appliesTo(&v) && c.Window != "" && !has {
			fail("%s: variant %s has no window %s", c.Measure, v.Name, c.Window)
		}
	}
	return errors.Join(append(errs, c.validateKnown(s))...)
}
