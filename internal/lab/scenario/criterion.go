package scenario

import (
	"errors"
	"fmt"
	"slices"

	"github.com/admitd/admitd/internal/lab/measure"
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
	// Measure is one of [measure.Names].
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

// Holds reports whether a value is within the bound.
func (c *Criterion) Holds(v float64) bool {
	return (c.AtLeast == nil || v >= *c.AtLeast) && (c.AtMost == nil || v <= *c.AtMost)
}

// String returns the bound as text.
func (c *Criterion) String() string {
	text := c.Subject()
	if c.AtLeast != nil {
		return fmt.Sprintf("%s ≥ %g", text, *c.AtLeast)
	}
	return fmt.Sprintf("%s ≤ %g", text, *c.AtMost)
}

// Subject returns what is judged as text.
func (c *Criterion) Subject() string {
	if c.Window == "" {
		return c.Measure
	}
	return c.Measure + " (" + c.Window + ")"
}

// Who returns By with its default.
func (c *Criterion) Who() []string {
	if len(c.By) == 0 {
		return []string{Queued}
	}
	return c.By
}

// AppliesTo reports whether the criterion is about a variant.
func (c *Criterion) AppliesTo(v *Variant) bool {
	return (len(c.Variants) == 0 || slices.ContainsFunc(c.Variants, v.Named)) && !slices.ContainsFunc(c.Except, v.Named)
}

// validate reports every problem.
func (c *Criterion) validate(s *Scenario) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pass: "+format, args...)) }
	if !slices.Contains(measure.Names(), c.Measure) {
		fail("measure must be one of %v (%s)", measure.Names(), c.Measure)
	}
	if (c.AtLeast == nil) == (c.AtMost == nil) {
		fail("%s: exactly one of atLeast and atMost must be set", c.Measure)
	}
	known := append([]string{Best, "none", Tuned, Queued}, Ours()...)
	for _, name := range c.Who() {
		if !slices.Contains(known, name) {
			fail("%s: by must be of %v (%s)", c.Measure, known, name)
		}
	}
	for _, name := range slices.Concat(c.Variants, c.Except) {
		if !slices.ContainsFunc(s.Variants, func(v Variant) bool { return v.Named(name) }) {
			fail("%s: there is no variant %s", c.Measure, name)
		}
	}
	for _, v := range s.Variants {
		run := s.Apply(&v)
		has := slices.ContainsFunc(run.Windows, func(w Window) bool { return w.Name == c.Window })
		if c.AppliesTo(&v) && c.Window != "" && !has {
			fail("%s: variant %s has no window %s", c.Measure, v.Name, c.Window)
		}
	}
	return errors.Join(append(errs, c.validateKnown(s))...)
}
