package lab_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/lab"
)

// scenario returns a shipped scenario.
func scenario(t *testing.T, name string) *lab.Scenario {
	t.Helper()
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %s", name)
	return nil
}

// The same seed gives the same result to the last digit, whatever runs beside
// it; another seed another one.
func TestSameSeedSameResult(t *testing.T) {
	s, ok := scenario(t, "brownout").Variant("3 retries")
	if !ok {
		t.Fatal("no such variant")
	}
	s.For = lab.Duration(85 * time.Second)
	for _, c := range lab.Contenders(s) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			play := func(seed uint64) *lab.Result {
				r, err := lab.Play(s, c, seed, lab.PlayOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			first := play(1)
			if diff := cmp.Diff(first, play(1)); diff != "" {
				t.Errorf("two runs of one seed differ:\n%s", diff)
			}
			if cmp.Equal(first.Windows, play(2).Windows) {
				t.Error("two seeds give the same result")
			}
		})
	}
}
