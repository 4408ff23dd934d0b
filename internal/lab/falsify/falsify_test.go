package falsify_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/falsify"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// Every point is a valid scenario of one variant, is the same text each time, and is
// of a size that is played in a moment; so is what it is moved to.
func TestEveryPointIsAScenario(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 600 {
		p := falsify.Draw(r)
		if n%2 == 1 {
			p = p.Move(r)
		}
		kind := []falsify.Kind{falsify.Goodput, falsify.FalseRefused}[n/2%2]
		text := p.Text(kind, "name", "about")
		s, err := scenario.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if again := p.Text(kind, "name", "about"); again != text {
			t.Fatalf("two texts of one point:\n%s\n%s", text, again)
		}
		run, _ := s.Variant("default")
		most := 0.0
		for _, step := range run.LoadSteps() {
			most = max(most, step.Load)
		}
		if n := most * run.Backend.Capacity() * time.Duration(run.For).Seconds(); n > 30_000 {
			t.Errorf("the run has %.0f arrivals\n%s", n, text)
		}
		if kind == falsify.FalseRefused && most > 0.8 {
			t.Errorf("a load of %v is no place for false refusals\n%s", most, text)
		}
	}
}

// Equal seeds have equal rounds, whatever runs beside them, and what is found is a
// file that is replayed to the same measures.
func TestSearchIsReproducible(t *testing.T) {
	search := func(workers int) *falsify.Report {
		t.Helper()
		s := falsify.Search{Seed: 5, Rounds: 1, Drawn: 1, Moved: 1, Workers: workers}
		rep, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	a, b := search(1), search(2)
	if diff := cmp.Diff(a, b, cmpopts.IgnoreUnexported(falsify.Find{})); diff != "" {
		t.Errorf("one worker and two find different things:\n%s", diff)
	}
	if a.Rounds != 1 || a.Scenarios != 2 || len(a.Goodput) == 0 {
		t.Fatalf("%+v; want 2 scenarios in 1 round, and something found", a)
	}
	f := &a.Goodput[0]
	s, err := scenario.Parse([]byte(f.Scenario))
	if err != nil {
		t.Fatal(err)
	}
	suite := lab.Suite{Scenarios: []*scenario.Scenario{s}, Contenders: []string{scenario.Queued}}
	results, err := suite.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	goodput := 0.0
	for _, r := range results {
		v, _ := r.Value("goodput", "measured")
		goodput += v / float64(len(results))
	}
	if diff := goodput - f.Goodput; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("replayed, the goodput is %v; the search says %v", goodput, f.Goodput)
	}
	if !strings.Contains(f.Scenario, "pass: [{ measure: goodput") {
		t.Errorf("the file judges nothing:\n%s", f.Scenario)
	}
}

// A search without an end is refused, and one that is called off ends with that.
func TestSearchEnds(t *testing.T) {
	if _, err := (&falsify.Search{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "needs rounds or a time") {
		t.Errorf("a search without an end: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&falsify.Search{Rounds: 1}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was called off: %v", err)
	}
}
