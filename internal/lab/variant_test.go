package lab_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// sweep is a scenario of two axes, one of them marked.
const sweep = smallest + `
backend: { workers: 8, thrash: 0.01 }
variants: [{ name: plain }]
sweep:
  - [{ name: small, backend: { workers: 1 } }, { name: large, backend: { workers: 64, service: { mean: 100ms } }, full: true }]
  - [{ name: 2x, scale: 2 }, { name: 3x, scale: 3, clients: { policy: naive, retries: 3 } }]
pass:
  - { variants: [2x], measure: good, atLeast: 0 }
  - { variants: [small / 3x], measure: good, atLeast: 0 }
`

// A sweep has a variant for each combination, changed by all that it is made of
// and by nothing else.
func TestSweep(t *testing.T) {
	s := parsed(t, sweep)
	var names []string
	for _, v := range s.Variants {
		names = append(names, v.Name)
	}
	want := []string{"plain", "small / 2x", "small / 3x", "large / 2x", "large / 3x"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatalf("variants (-want +got):\n%s", diff)
	}
	run, _ := s.Variant("large / 3x")
	if b := run.Backend; b.Workers != 64 || b.Thrash != 0.01 || time.Duration(b.Service.Mean) != 100*time.Millisecond {
		t.Errorf("the backend is %+v; want 64 workers of 100ms, and the thrash that was not changed", b)
	}
	if run.Scale != 3 || run.Clients.Retries != 3 || !run.Full || run.Name != "x" {
		t.Errorf("scale %v, retries %d, full %v, name %s; want 3, 3, true, x", run.Scale, run.Clients.Retries, run.Full, run.Name)
	}
	if plain, _ := s.Variant("plain"); plain.Backend.Workers != 8 || plain.Scale != 0 || plain.Clients.Retries != 0 {
		t.Errorf("changes of one variant are in another: %+v", plain)
	}
}

// What is marked is left out, unless everything is played or it is named, by any
// of its parts; a criterion means variants by their parts, too.
func TestSweepIsChosenFrom(t *testing.T) {
	s := parsed(t, sweep)
	for name, tc := range map[string]struct {
		suite lab.Suite
		want  []string
	}{
		"quick": {lab.Suite{}, []string{"plain", "small / 2x", "small / 3x"}},
		"full":  {lab.Suite{Full: true}, []string{"plain", "small / 2x", "small / 3x", "large / 2x", "large / 3x"}},
		"named": {lab.Suite{Variants: []string{"3x"}}, []string{"small / 3x", "large / 3x"}},
		"two":   {lab.Suite{Variants: []string{"large / 2x", "plain"}}, []string{"plain", "large / 2x"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.suite.Scenarios, tc.suite.Seeds, tc.suite.Contenders = []*scenario.Scenario{s}, 1, []string{"fixed-tuned"}
			results, err := tc.suite.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range results {
				got = append(got, r.Variant)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("played %q; want %q", got, tc.want)
			}
			if name != "full" {
				return
			}
			var judged []string
			for _, v := range report.New([]*scenario.Scenario{s}, results).Verdicts {
				judged = append(judged, v.Variant)
			}
			if want := []string{"small / 2x", "small / 3x", "large / 2x"}; !slices.Equal(judged, want) {
				t.Errorf("criteria are about %q; want %q", judged, want)
			}
		})
	}
}
