package lab_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// crowded is a short overload of four workers.
const crowded = `
name: crowded
about: Four workers, three times what they can do, and a part of it slower.
for: 12s
backend: { workers: 4, thrash: 0.01 }
load: [{ at: 0s, load: 3 }]
health: [{ at: 7s, slow: 3 }]
windows: [{ name: well, from: 2s, to: 7s }, { name: slow, from: 8s, to: 12s }]
`

// Parsed parses a scenario.
func parsed(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The ceiling of a window is what the best fixed limit does there: no other does
// better by more than the grid misses, and each window has its own.
func TestCeilingIsTheBestFixedLimit(t *testing.T) {
	s := parsed(t, crowded)
	found, err := lab.RefreshCeilings(t.Context(), scenario.Ceilings{}, &lab.Suite{Scenarios: []*scenario.Scenario{s}})
	if err != nil {
		t.Fatal(err)
	}
	windows := found["crowded"]["default"].Windows
	best := [2]float64{}
	for limit := 1; limit < 60; limit++ {
		good := [2]float64{}
		for seed := range uint64(2) {
			run, _ := s.Variant("default")
			r, err := lab.Play(run, lab.Fixed(run, "fixed", limit), seed+1, lab.PlayOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range good {
				good[i] += float64(r.Windows[i].Good) / r.Windows[i].Seconds / 2
			}
		}
		best = [2]float64{max(best[0], good[0]), max(best[1], good[1])}
	}
	for i, name := range []string{"well", "slow"} {
		if c := windows[name]; c.Good < 0.99*best[i] || c.Good > 1.001*best[i] {
			t.Errorf("%s: the ceiling is %v/s with a limit of %d; the best of all is %v/s", name, c.Good, c.Limit, best[i])
		}
	}
	if windows["well"].Limit <= windows["slow"].Limit {
		t.Errorf("limits are %d and %d; a backend that is three times as slow must have a lower one", windows["well"].Limit, windows["slow"].Limit)
	}
}

// Ceilings come out of a file as they went in; those of a scenario that was
// changed are computed anew, and the others are kept as they are.
func TestCeilingsAreKeptWhileTheyHold(t *testing.T) {
	s := parsed(t, crowded)
	found, err := lab.RefreshCeilings(t.Context(), scenario.Ceilings{}, &lab.Suite{Scenarios: []*scenario.Scenario{s}})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := found.Write(&file); err != nil {
		t.Fatal(err)
	}
	read, err := scenario.ReadCeilings(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(found, read); diff != "" {
		t.Errorf("ceilings changed in the file (-want +got):\n%s", diff)
	}
	computed := func(text string) (n int) {
		if _, err := lab.RefreshCeilings(t.Context(), read, &lab.Suite{Scenarios: []*scenario.Scenario{parsed(t, text)}, Progress: func(int, int) { n++ }}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	words := strings.Replace(crowded, "Four workers", "A few workers", 1) + "pass: [{ measure: good, atLeast: 0.1 }]\nseeds: 2\n"
	if n := computed(words); n != 0 {
		t.Errorf("other words, criteria and seeds had %d ceilings computed; want none", n)
	}
	if n := computed(strings.Replace(crowded, "thrash: 0.01", "thrash: 0.02", 1)); n != 1 {
		t.Errorf("another backend had %d ceilings computed; want 1", n)
	}
	if n := computed(crowded + "full: true\n"); n != 0 {
		t.Errorf("a variant that is left out had %d ceilings computed; want none", n)
	}
}

// A scenario that was changed needs its ceilings computed: make lab-ceilings.
func TestShippedCeilingsHold(t *testing.T) {
	stale, err := lab.StaleCeilings()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stale {
		t.Errorf("%s has no ceiling; run 'make lab-ceilings'", name)
	}
}

// smallest is the least that a scenario needs.
const smallest = `
name: x
about: y
for: 10s
load: [{ at: 0s, load: 1 }]
windows: [{ name: all, from: 0s, to: 10s }]
`
