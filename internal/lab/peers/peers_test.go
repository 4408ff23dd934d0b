package peers_test

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/peers"
	"github.com/admitd/admitd/internal/lab/scenario"
)

var out = flag.String("out", "", "play the whole comparison and write the results to this file")

// comparedSeeds is how many seeds the libraries are compared with, at most.
const comparedSeeds = 2

// skipped are the scenarios that are about parts which the libraries do not have:
// partitions, configuration, our clock.
func skipped() []string { return []string{"clock", "reload", "soak", "tenant", "classes"} }

// run is one variant that the libraries are compared in.
type run struct {
	scenario, variant string
	seeds             int
}

// compared are the variants that 'make lab' plays for our own limits.
func compared(t *testing.T) []run {
	t.Helper()
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var runs []run
	for _, s := range list {
		if slices.Contains(skipped(), s.Name) {
			continue
		}
		for i := range s.Variants {
			// Nobody can tell a library how many gates there are.
			if v, _ := s.Variant(s.Variants[i].Name); !v.Full && !v.Told && !v.ToldOthers {
				runs = append(runs, run{s.Name, s.Variants[i].Name, min(v.Seeds, comparedSeeds)})
			}
		}
	}
	return runs
}

// variant returns a shipped variant.
func variant(t *testing.T, of, name string) *scenario.Scenario {
	t.Helper()
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == of {
			if v, ok := s.Variant(name); ok {
				return v
			}
		}
	}
	t.Fatalf("no variant %s of %s", name, of)
	return nil
}

// play plays one run in a bubble.
func play(t *testing.T, s *scenario.Scenario, c lab.Contender, seed uint64) *measure.Result {
	t.Helper()
	var result *measure.Result
	synctest.Test(t, func(t *testing.T) {
		r, err := lab.Play(s, c, seed, lab.PlayOptions{Advance: time.Sleep})
		if err != nil {
			t.Fatal(err)
		}
		result = r
	})
	return result
}

// The libraries hold twice the capacity far better than no gate: that they run
// at all, on the time of the bubble, shows in their limits doing something.
func TestLibrariesRun(t *testing.T) {
	s := variant(t, "steady", "2x")
	s.For, s.Windows = scenario.Duration(20*time.Second), []scenario.Window{{Name: "late", From: scenario.Duration(10 * time.Second), To: scenario.Duration(20 * time.Second)}}
	for _, c := range peers.Contenders() {
		t.Run(c.Name, func(t *testing.T) {
			r := play(t, s, c, 1)
			good, most := 0.5, 0.6
			if c.Name == "aegis-bbr" { // it takes the lowest latency of many windows for the usual one
				good, most = 0.25, 0.9
			}
			if v, _ := r.Value("goodput", ""); v < good {
				t.Errorf("goodput is %v of the capacity; want at least %v", v, good)
			}
			if v, _ := r.Value("refused", ""); v < 0.4 || v > most {
				t.Errorf("%v were refused at twice the capacity; want about half, at most %v", v, most)
			}
		})
	}
}

// A library that draws nothing from the process's own randomness, as Vegas does
// for its probes, gives the same result for the same seed, too.
func TestSameSeedSameResult(t *testing.T) {
	s := variant(t, "brownout", "no retries")
	s.For, s.Windows = scenario.Duration(70*time.Second), s.Windows[:0]
	s.Windows = append(s.Windows, scenario.Window{Name: "all", To: s.For})
	c := peers.Contenders()[0]
	if a, b := play(t, s, c, 3), play(t, s, c, 3); !slices.Equal(a.Series, b.Series) {
		t.Error("two runs of one seed differ")
	}
}

// Writes the comparison when it is asked to.
func TestWriteComparison(t *testing.T) {
	if *out == "" {
		t.Skip("-out names no file")
	}
	var (
		mu      sync.Mutex
		results []*measure.Result
	)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	t.Run("runs", func(t *testing.T) {
		for _, r := range compared(t) {
			for _, c := range peers.Contenders() {
				t.Run(r.scenario+"/"+r.variant+"/"+c.Name, func(t *testing.T) {
					t.Parallel()
					slots <- struct{}{}
					defer func() { <-slots }()
					for seed := range uint64(r.seeds) {
						result := play(t, variant(t, r.scenario, r.variant), c, seed+1)
						result.Series = nil // the plots over time are for ours
						mu.Lock()
						results = append(results, result)
						mu.Unlock()
					}
				})
			}
		}
	})
	f, err := os.Create(*out)
	if err != nil {
		t.Fatal(err)
	}
	if err := measure.Write(f, results); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
