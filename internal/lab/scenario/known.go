package scenario

import (
	"errors"
	"fmt"
	"slices"
)

// Known says where a target of [Criterion] is missed today, and what is kept
// instead. The target stays as it is: who misses even this has become worse, and
// who reaches the target has become better, and both are said.
type Known struct {
	// Variants in which it is missed, as in [Criterion.Variants]; none = all that
	// the criterion is about. The first entry that names a variant counts.
	Variants []string `yaml:"variants"`
	// Is the bound that is kept instead, on the same side as the target.
	Is float64 `yaml:"is"`
	// Why it is missed: what is possible, and what stands in the way.
	Why string `yaml:"why"`
}

// KnownIn returns the mark on a variant; nil = none.
func (c *Criterion) KnownIn(v *Variant) *Known {
	for i := range c.Known {
		if k := &c.Known[i]; len(k.Variants) == 0 || slices.ContainsFunc(k.Variants, v.Named) {
			return k
		}
	}
	return nil
}

// Weakened returns the criterion with the bound of a mark.
func (c *Criterion) Weakened(k *Known) *Criterion {
	out := *c
	if c.AtLeast != nil {
		out.AtLeast = &k.Is
	} else {
		out.AtMost = &k.Is
	}
	return &out
}

// validateKnown reports every problem of the marks.
func (c *Criterion) validateKnown(s *Scenario) error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("pass: %s: known: "+format, append([]any{c.Subject()}, args...)...))
	}
	for i := range c.Known {
		k := &c.Known[i]
		if who := c.Who(); len(who) != 1 || who[0] == Best {
			fail("by must name one contender")
		}
		if k.Why == "" {
			fail("why must say what stands in the way")
		}
		if c.AtLeast != nil && k.Is >= *c.AtLeast || c.AtMost != nil && k.Is <= *c.AtMost {
			fail("is must be weaker than the target (%g)", k.Is)
		}
		for _, name := range k.Variants {
			if !slices.ContainsFunc(s.Variants, func(v Variant) bool { return c.AppliesTo(&v) && v.Named(name) }) {
				fail("the criterion is about no variant %s", name)
			}
		}
	}
	return errors.Join(errs...)
}
