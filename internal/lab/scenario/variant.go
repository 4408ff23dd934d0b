package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// partOf joins the names of the entries that make a variant of a sweep.
const partOf = " / "

// Variant changes a scenario: it has a name, and any of the keys of a scenario
// that are not about variants. What it leaves out stays as it is; lists are
// replaced as a whole.
type Variant struct {
	Name    string
	changes [][]byte  // YAML, applied in this order
	run     *Scenario // the scenario with the changes; nil = as it is
}

// UnmarshalYAML keeps the text: it is applied when the scenario is known.
func (v *Variant) UnmarshalYAML(b []byte) error {
	var named struct {
		Name string `yaml:"name"`
	}
	if err := yaml.Unmarshal(b, &named); err != nil {
		return err
	}
	v.Name, v.changes = named.Name, [][]byte{bytes.Clone(b)}
	return nil
}

// combine makes the variants of the sweep and applies the changes of all.
func (s *Scenario) combine() error {
	if len(s.Sweep) > 0 {
		sweep := []Variant{{}}
		for _, axis := range s.Sweep {
			var next []Variant
			for _, v := range sweep {
				for _, entry := range axis {
					next = append(next, v.with(&entry))
				}
			}
			if sweep = next; len(sweep) > maxVariants {
				return fmt.Errorf("sweep: it makes more than %d variants", maxVariants)
			}
		}
		s.Variants = append(s.Variants, sweep...)
	}
	var errs []error
	for i := range s.Variants {
		errs = append(errs, s.Variants[i].build(s))
	}
	return errors.Join(errs...)
}

// with returns a variant that is changed by one more entry.
func (v *Variant) with(entry *Variant) Variant {
	out := Variant{Name: entry.Name, changes: slices.Concat(v.changes, entry.changes)}
	if v.Name != "" {
		out.Name = v.Name + partOf + entry.Name
	}
	return out
}

// build applies the changes.
func (v *Variant) build(s *Scenario) error {
	run := *s
	run.Variants, run.Sweep = nil, nil
	for _, b := range v.changes {
		// Lists that are not replaced stay those of s, which nobody changes.
		if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&run); err != nil {
			return fmt.Errorf("variant %s: %w", v.Name, err)
		}
	}
	if run.Variants != nil || run.Sweep != nil {
		return fmt.Errorf("variant %s: it cannot have variants of its own", v.Name)
	}
	run.Name, run.About, run.Pass = s.Name, s.About, s.Pass
	v.run = &run
	return nil
}

// Variant returns the scenario with one variant applied. ok is false when there
// is no such variant.
func (s *Scenario) Variant(name string) (v *Scenario, ok bool) {
	i := slices.IndexFunc(s.Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.Apply(&s.Variants[i]), true
}

// Apply returns a copy of s changed by v.
func (s *Scenario) Apply(v *Variant) *Scenario {
	out := *s
	if v.run != nil {
		out = *v.run
	}
	out.Variants = []Variant{{Name: v.Name}}
	return &out
}

// Named reports whether a variant is meant by a name: its own, or some of the
// names that it was combined from.
func (v *Variant) Named(name string) bool {
	parts := strings.Split(v.Name, partOf)
	for part := range strings.SplitSeq(name, partOf) {
		if !slices.Contains(parts, part) {
			return false
		}
	}
	return true
}
