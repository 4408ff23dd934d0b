package lab_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// shipped returns a shipped scenario.
func shipped(t *testing.T, name string) *scenario.Scenario {
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
	s, ok := shipped(t, "brownout").Variant("3 retries")
	if !ok {
		t.Fatal("no such variant")
	}
	s.For = scenario.Duration(85 * time.Second)
	for _, c := range lab.Contenders(s) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			play := func(seed uint64) *measure.Result {
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

// Nor does it depend on the seed of the hashes that keys are looked up by: of
// partitions that were last used in the same second those made way that came first
// in the order of the hashes, so that every run of the soak was another one.
func TestSameSeedSameEvictions(t *testing.T) {
	s, ok := shipped(t, "soak").Variant("default")
	if !ok {
		t.Fatal("no such variant")
	}
	s.For, s.Load = scenario.Duration(30*time.Second), []scenario.LoadStep{{Load: 1.5}}
	s.Windows = []scenario.Window{{Name: "whole", To: s.For}}
	for _, c := range lab.Contenders(s) {
		if c.Name != scenario.Queued {
			continue
		}
		var first *measure.Result
		for range 2 {
			r, err := lab.Play(s, c, 1, lab.PlayOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = r
			}
			if diff := cmp.Diff(first, r); diff != "" {
				t.Fatalf("two runs of one seed differ:\n%s", diff)
			}
		}
	}
}

// A clock that stands still is noticed, and the gate goes on with its fixed
// fallback: permits are neither lost nor withheld.
func TestBrokenClockFallsBack(t *testing.T) {
	s, ok := shipped(t, "clock").Variant("frozen")
	if !ok {
		t.Fatal("no such variant")
	}
	for _, c := range lab.Contenders(s) {
		if c.Name != "vegas" {
			continue
		}
		r, err := lab.Play(s, c, 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before, during := r.Series[70].Limit, r.Series[90].Limit // at 35 s and 45 s
		if before == 20 || during != 20 {
			t.Errorf("the limit is %d before the fault and %d during it; want its own, then the fallback of 20", before, during)
		}
		if r.Leaked != 0 {
			t.Errorf("%d permits leaked", r.Leaked)
		}
	}
}

// Every contender of a seed meets the same arrivals, so that differences are
// its own.
func TestSameArrivalsForAll(t *testing.T) {
	s, _ := shipped(t, "steady").Variant("2x")
	s.For, s.Windows = scenario.Duration(5*time.Second), []scenario.Window{{Name: "all", To: scenario.Duration(5 * time.Second)}}
	offered := map[int]bool{}
	for _, c := range lab.Contenders(s) {
		r, err := lab.Play(s, c, 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w := r.Windows[0]
		offered[w.Offered] = true
		if got := w.Answered + w.Refused + w.Failed; got != w.Offered {
			t.Errorf("%s: %d requests came and %d ended", c.Name, w.Offered, got)
		}
	}
	if len(offered) != 1 {
		t.Errorf("the contenders met different numbers of requests: %v", offered)
	}
}

// Gates that are told how many they are divide what they would each take: eight
// from a cold start let far less into the backend at first. That goes for every
// algorithm: only knee was told once, and the others kept eight whole limits.
func TestGatesAreTold(t *testing.T) {
	inside := map[string]map[bool]int{}
	for _, name := range []string{"8 gates / cold / told not", "8 gates / cold / told"} {
		s, ok := shipped(t, "gates").Variant(name)
		if !ok {
			t.Fatal("no such variant")
		}
		s.For = scenario.Duration(2 * time.Second)
		for _, c := range lab.Contenders(s) {
			r, err := lab.Play(s, c, 1, lab.PlayOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if inside[c.Name] == nil {
				inside[c.Name] = map[bool]int{}
			}
			inside[c.Name][s.Told] = r.Series[0].Inside // after half a second
		}
	}
	for _, name := range append([]string{"knee+queue"}, scenario.Ours()...) {
		if n := inside[name]; 3*n[true] > n[false] {
			t.Errorf("%s: %d are inside the backend when the gates are told, %d when not; want a third at most", name, n[true], n[false])
		}
	}
}

// Eight gates that are told of others, and not of how many, keep their target; told
// nothing they keep next to nothing.
func TestGatesAreToldOfOthers(t *testing.T) {
	for name, told := range map[string]bool{"8 gates / cold / told auto": true, "8 gates / warm / told auto": true, "8 gates / cold / told not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ok := shipped(t, "gates").Variant(name)
			if !ok {
				t.Fatal("no such variant")
			}
			for _, c := range lab.Contenders(s) {
				if c.Name != scenario.Queued {
					continue
				}
				r, err := lab.Play(s, c, 1, lab.PlayOptions{})
				if err != nil {
					t.Fatal(err)
				}
				w := &r.Windows[0]
				share := float64(w.Good) / w.Seconds / w.Capacity
				if told != (share >= 0.85) {
					t.Errorf("%.3f of the capacity", share)
				}
			}
		})
	}
}

// What gates are told need not be true: eight that are told eight do what eight that
// are told their number do, and two that are told eight let in less than two that know.
func TestGatesAreToldWhatIsNotTrue(t *testing.T) {
	play := func(name string) *measure.Result {
		s, ok := shipped(t, "gates").Variant(name)
		if !ok {
			t.Fatalf("no variant %s", name)
		}
		s.For = scenario.Duration(2 * time.Second)
		for _, c := range lab.Contenders(s) {
			if c.Name == scenario.Queued {
				r, err := lab.Play(s, c, 1, lab.PlayOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
		}
		t.Fatal("no contender")
		return nil
	}
	told, guessed := play("8 gates / cold / told"), play("8 gates / cold / told eight")
	if diff := cmp.Diff(told.Series, guessed.Series); diff != "" {
		t.Errorf("a guess that is right is not the same:\n%s", diff)
	}
	few, many := play("2 gates / cold / told").Series[0], play("2 gates / cold / told eight").Series[0]
	if many.Inside >= few.Inside {
		t.Errorf("two gates that are told eight let %d in at first, %d when they are told two", many.Inside, few.Inside)
	}
}
