package scenario

import (
	_ "embed" // for the ceilings that were computed
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Ceiling is the best that any fixed limit does in one window: the limit that
// an operator would choose who knew the scenario in advance.
type Ceiling struct {
	Limit   int     `json:"limit"`   // over all gates
	Good    float64 `json:"good"`    // answers within the objective, per second
	Refused float64 `json:"refused"` // share of the requests that the limit refuses
}

// VariantCeilings are those of one variant, by window.
type VariantCeilings struct {
	// Of identifies what they were computed for: a variant that was changed
	// since then has none.
	Of      string             `json:"of"`
	Windows map[string]Ceiling `json:"windows"`
}

// Ceilings are known ceilings, by scenario and variant.
type Ceilings map[string]map[string]VariantCeilings

// ReadCeilings reads what [Ceilings.Write] wrote.
func ReadCeilings(b []byte) (Ceilings, error) {
	c := Ceilings{}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("lab: ceilings: %w", err)
	}
	return c, nil
}

// Ceilings returns what is possible in the only variant of a scenario, by window;
// nil = unknown.
func (s *Scenario) Ceilings() map[string]Ceiling { return s.ceilings }

// HasCeiling reports whether a fixed limit means something in the variant: one
// per tenant does not bound the backend.
func (s *Scenario) HasCeiling() bool { return s.Tenants.Count == 0 }

// Identity returns a text that changes with everything that a run depends on.
// What is zero does not count, so that a new key changes nothing.
func (s *Scenario) Identity() string {
	c := *s
	c.About, c.Pass, c.Seeds, c.Full, c.Trigger, c.Sweep, c.Variants = "", nil, 0, false, Span{}, nil, nil
	b, err := json.Marshal(&c)
	var plain any
	if err = errors.Join(err, json.Unmarshal(b, &plain)); err != nil {
		panic(err) // nothing in it cannot be encoded: a fault of ours
	}
	prune(plain)
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(plain); err != nil {
		panic(err) // as above
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// prune removes from decoded JSON the members that are zero, and reports whether
// nothing is left.
func prune(x any) (empty bool) {
	switch x := x.(type) {
	case map[string]any:
		maps.DeleteFunc(x, func(_ string, v any) bool { return prune(v) })
		return len(x) == 0
	case []any:
		for _, v := range x {
			prune(v)
		}
		return len(x) == 0
	default:
		return x == nil || x == "" || x == "0s" || x == false || x == 0.0
	}
}

// Know tells the variants of a scenario their ceilings, as far as they are known.
func (c Ceilings) Know(s *Scenario) {
	for i := range s.Variants {
		v := &s.Variants[i]
		if known := c[s.Name][v.Name]; v.run != nil && known.Of == v.run.Identity() {
			v.run.ceilings = known.Windows
		}
	}
}

// Write writes ceilings, one variant per line, in the order of their names.
func (c Ceilings) Write(w io.Writer) error {
	var text strings.Builder
	before := "{\n"
	for _, scenario := range slices.Sorted(maps.Keys(c)) {
		text.WriteString(before + strconv.Quote(scenario) + ": {")
		before = "\n "
		for _, variant := range slices.Sorted(maps.Keys(c[scenario])) {
			b, err := json.Marshal(c[scenario][variant])
			if err != nil {
				return fmt.Errorf("lab: write ceilings: %w", err)
			}
			text.WriteString(before + strconv.Quote(variant) + ": " + string(b))
			before = ",\n "
		}
		text.WriteString("}")
		before = ",\n"
	}
	if _, err := io.WriteString(w, text.String()+"\n}\n"); err != nil {
		return fmt.Errorf("lab: write ceilings: %w", err)
	}
	return nil
}
