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

	"github.com/admitd/admitd/lab"
	"github.com/admitd/admitd/lab/peers"
)

var out = flag.String("out", "", "play the whole comparison and write the results to this file")

// compared are the variants that the libraries are compared in.
func compared() map[string][]string {
	return map[string][]string{
		"steady":   {"0.5x", "0.6x", "0.9x", "1x", "1.2x", "1.4x", "2x", "5x", "10x"},
		"brownout": {"no retries"},
		"baseline": {"+40ms", "+200ms"},
	}
}

// variant returns a shipped variant.
func variant(t *testing.T, scenario, name string) *lab.Scenario {
	t.Helper()
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == scenario {
			if v, ok := s.Variant(name); ok {
				return v
			}
		}
	}
	t.Fatalf("no variant %s of %s", name, scenario)
	return nil
}

// play plays one run in a bubble.
func play(t *testing.T, s *lab.Scenario, c lab.Contender, seed uint64) *lab.Result {
	t.Helper()
	var result *lab.Result
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
	s.For, s.Windows = lab.Duration(20*time.Second), []lab.Window{{Name: "late", From: lab.Duration(10 * time.Second), To: lab.Duration(20 * time.Second)}}
	for _, c := range peers.Contenders() {
		t.Run(c.Name, func(t *testing.T) {
			r := play(t, s, c, 1)
			if v, _ := r.Value("goodput", ""); v < 0.5 {
				t.Errorf("goodput is %v of the capacity; want at least 0.5", v)
			}
			if v, _ := r.Value("refused", ""); v < 0.4 || v > 0.6 {
				t.Errorf("%v were refused at twice the capacity; want about half", v)
			}
		})
	}
}

// A library that draws nothing from the process's own randomness, as Vegas does
// for its probes, gives the same result for the same seed, too.
func TestSameSeedSameResult(t *testing.T) {
	s := variant(t, "brownout", "no retries")
	s.For, s.Windows = lab.Duration(70*time.Second), s.Windows[:0]
	s.Windows = append(s.Windows, lab.Window{Name: "all", To: s.For})
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
		results []*lab.Result
	)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	t.Run("runs", func(t *testing.T) {
		for scenario, variants := range compared() {
			for _, name := range variants {
				for _, c := range peers.Contenders() {
					t.Run(scenario+"/"+name+"/"+c.Name, func(t *testing.T) {
						t.Parallel()
						slots <- struct{}{}
						defer func() { <-slots }()
						for seed := range uint64(5) {
							r := play(t, variant(t, scenario, name), c, seed+1)
							r.Series = nil // the plots over time are for ours
							mu.Lock()
							results = append(results, r)
							mu.Unlock()
						}
					})
				}
			}
		}
	})
	f, err := os.Create(*out)
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.WriteResults(f, results); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
