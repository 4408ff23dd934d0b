package lab

import (
	"context"
	_ "embed" // for the ceilings that were computed
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

//go:embed ceilings.json
var computed []byte

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

// hasCeiling reports whether a fixed limit means something in the variant: one
// per tenant does not bound the backend.
func (s *Scenario) hasCeiling() bool { return s.Tenants.Count == 0 }

// identity returns a text that changes with everything that a run depends on.
// What is zero does not count, so that a new key changes nothing.
func (s *Scenario) identity() string {
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

// know tells the variants of a scenario their ceilings, as far as they are known.
func (c Ceilings) know(s *Scenario) {
	for i := range s.Variants {
		v := &s.Variants[i]
		if known := c[s.Name][v.Name]; v.run != nil && known.Of == v.run.identity() {
			v.run.ceilings = known.Windows
		}
	}
}

// Refresh returns c with the ceilings of all given scenarios: those that are
// missing or stale are computed, the others kept, those of other scenarios too.
// Only the variants that suite plays are computed. Its Progress is called after
// each of them.
func (c Ceilings) Refresh(ctx context.Context, suite *Suite) (Ceilings, error) {
	out := maps.Clone(c)
	var stale []*Scenario
	for _, s := range suite.Scenarios {
		out[s.Name] = map[string]VariantCeilings{}
		for i := range s.Variants {
			run, name := s.apply(&s.Variants[i]), s.Variants[i].Name
			if known := c[s.Name][name]; known.Of == run.identity() {
				out[s.Name][name] = known
			} else if run.hasCeiling() && suite.plays(&s.Variants[i], run) {
				stale = append(stale, run)
			}
		}
	}
	var mu sync.Mutex // guards out and done
	done := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, run := range stale {
		group.Go(func() error {
			found, err := findCeilings(ctx, run)
			mu.Lock()
			defer mu.Unlock()
			out[run.Name][run.Variants[0].Name] = VariantCeilings{Of: run.identity(), Windows: found}
			done++
			if suite.Progress != nil {
				suite.Progress(done, len(stale))
			}
			return err
		})
	}
	return out, group.Wait()
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
