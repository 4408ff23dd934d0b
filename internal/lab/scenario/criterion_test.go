package scenario_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/labels"
)

// A criterion says what it is about in words, holds within its bound, bound
// included, and names who must keep it.
func TestCriterion(t *testing.T) {
	s := parsed(t, `
variants: [{ name: a }, { name: b }]
sweep: [[{ name: x }, { name: y }], [{ name: 1 gate }, { name: 8 gates }]]
pass:
  - { measure: good, atLeast: 0.5, variants: [b, x], except: [x / 8 gates], why: w }
  - { measure: p99, window: all, atMost: 0.1, by: [vegas], known: [{ variants: [a], is: 0.2, why: hard }, { is: 0.3, why: harder }] }
`)
	good, p99 := &s.Pass[0], &s.Pass[1]
	if got := good.String() + "; " + p99.String() + "; " + strings.Join(append(good.Who(), p99.Who()...), " "); got != "good ≥ 0.5; p99 (all) ≤ 0.1; knee+queue vegas" {
		t.Errorf("the criteria are %s", got)
	}
	for v, want := range map[float64][2]bool{0.5: {true, false}, 0.1: {false, true}, 0.49: {false, false}, 0.05: {false, true}} {
		if got := [2]bool{good.Holds(v), p99.Holds(v)}; got != want {
			t.Errorf("%v holds as %v; want %v", v, got, want)
		}
	}
	var about []string
	for i := range s.Variants {
		if good.AppliesTo(&s.Variants[i]) {
			about = append(about, s.Variants[i].Name)
		}
	}
	if diff := cmp.Diff([]string{"b", "x / 1 gate"}, about); diff != "" {
		t.Errorf("the first is about (-want +got):\n%s", diff)
	}
	// The first mark that names a variant counts, and weakens the bound on its side.
	if k := p99.KnownIn(&s.Variants[0]); k == nil || k.Is != 0.2 || !p99.Weakened(k).Holds(0.2) || p99.Weakened(k).Holds(0.21) {
		t.Errorf("the mark on a is %+v", k)
	}
	if k := p99.KnownIn(&s.Variants[1]); k == nil || k.Is != 0.3 {
		t.Errorf("the mark on b is %+v; want the one for all", k)
	}
	if good.KnownIn(&s.Variants[1]) != nil || p99.AtMost == nil || *p99.AtMost != 0.1 {
		t.Error("the target was changed by its mark")
	}
}

// A variant has the keys that it changes and those of the scenario besides; lists
// are replaced, and the scenario stays as it was.
func TestVariants(t *testing.T) {
	s := parsed(t, `
backend: { workers: 4, queue: 9 }
variants:
  - { name: plain }
  - { name: big, backend: { workers: 16 }, load: [{ at: 0s, load: 3 }], gates: 2 }
`)
	plain, ok := s.Variant("plain")
	big, ok2 := s.Variant("big")
	if _, ok3 := s.Variant("none"); !ok || !ok2 || ok3 {
		t.Fatalf("found plain %v, big %v, none %v", ok, ok2, ok3)
	}
	if plain.Backend.Workers != 4 || plain.Load[0].Load != 1 || plain.Gates != 1 || len(plain.Variants) != 1 {
		t.Errorf("plain is changed: %+v", plain)
	}
	if big.Backend.Workers != 16 || big.Backend.Queue != 9 || big.Load[0].Load != 3 || big.Gates != 2 || big.Name != s.Name {
		t.Errorf("big is %+v; want 16 workers, the queue as it was, and three times the load", big)
	}
	if s.Backend.Workers != 4 || s.Load[0].Load != 1 {
		t.Error("a variant changed the scenario")
	}
}

// Ceilings are known as long as what they were computed for is what is played.
// What says nothing about the run does not change that, and a zero key is none.
func TestIdentity(t *testing.T) {
	of := func(more string) string {
		v, _ := parsed(t, more).Variant("default")
		return v.Identity()
	}
	plain := of("")
	for _, same := range []string{"seeds: 9\n", "full: true\n", "scale: 0\n", "trigger: { from: 1s, to: 2s }\n", "pass: [{ measure: good, atLeast: 1 }]\n", "tenants: { count: 0 }\n"} {
		if of(same) != plain {
			t.Errorf("%q makes the ceilings stale; it changes no run", same)
		}
	}
	const kept = "2u9ffv1gurmft" // in files that were computed: who changes it computes every ceiling anew
	if plain != kept {
		t.Errorf("the identity of the smallest scenario is %s; was %s", plain, kept)
	}
	seen := map[string]string{plain: ""}
	for _, other := range []string{"gates: 2\n", "timeout: 2s\n", "scale: 2\n", "backend: { workers: 9 }\n", "objective: 99ms\n", "health: [{ at: 1s, slow: 2 }]\n"} {
		id := of(other)
		if before, twice := seen[id]; twice {
			t.Errorf("%q has the identity of %q", other, before)
		}
		seen[id] = other
	}
}

// Ceilings are written a variant to a line, sorted, and read back; those of a
// variant that has changed are not told.
func TestCeilings(t *testing.T) {
	s := parsed(t, "variants: [{ name: b }, { name: a, gates: 2 }]\n")
	a, _ := s.Variant("a")
	best := map[string]scenario.Ceiling{"all": {Limit: 9, Good: 80.25, Refused: 0.5}}
	c := scenario.Ceilings{
		"z": {"v": {Of: "other", Windows: best}},
		"x": {"b": {Of: "stale", Windows: best}, "a": {Of: a.Identity(), Windows: best}},
	}
	var text bytes.Buffer
	if err := c.Write(&text); err != nil {
		t.Fatal(err)
	}
	if i, j, k := strings.Index(text.String(), `"a"`), strings.Index(text.String(), `"b"`), strings.Index(text.String(), `"z"`); i > j || j > k || strings.Count(text.String(), "\n") != 7 {
		t.Errorf("written as\n%s; want the names in order, a variant to a line", text.String())
	}
	read, err := scenario.ReadCeilings(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, read); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	read.Know(s)
	a, _ = s.Variant("a")
	b, _ := s.Variant("b")
	if diff := cmp.Diff(best, a.Ceilings()); diff != "" || b.Ceilings() != nil {
		t.Errorf("known of a (-want +got), and of b %v, which has changed:\n%s", b.Ceilings(), diff)
	}
	if _, err := scenario.ReadCeilings([]byte("[]")); err == nil {
		t.Error("a list passes for ceilings")
	}
	if err := c.Write(full{}); !errors.Is(err, errFull) {
		t.Errorf("a disk that is full: %v", err)
	}
	if parsed(t, "").HasCeiling() != true || parsed(t, "tenants: { count: 3 }\n").HasCeiling() {
		t.Error("a limit per tenant has no ceiling, and one for all has")
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// Each policy makes of a refusal and of a lost answer what its clients do.
func TestClients(t *testing.T) {
	refused := labels.New(labels.ConcurrencyLimit, "orders", "default")
	for policy, tc := range map[string]struct {
		refusal, lost bool // tried again
	}{
		"none":                                     {false, false},
		"policy: driver":                           {true, false},
		"policy: seed":                             {true, false},
		"policy: naive, retries: 3":                {true, true},
		"policy: slowdown":                         {true, true},
		"policy: driver, budget: true":             {true, false},
		"policy: naive, retries: 0":                {false, false},
		"policy: naive, retries: -1, deadline: 1s": {true, true},
	} {
		more := "clients: { " + policy + " }\n"
		if policy == "none" {
			more = ""
		}
		c := &parsed(t, more).Clients
		p, err := c.ClientPolicy(func() float64 { return 0.5 })
		if err != nil {
			t.Fatalf("%s: %v", policy, err)
		}
		for what, f := range map[string]client.Failure{"refusal": c.Refused(&refused), "lost answer": c.Lost()} {
			state := client.State{Kind: client.Read}
			want := tc.refusal
			if what == "lost answer" {
				want = tc.lost
			}
			if d := p.Next(&state, &f, client.NoDeadline, p.NewBudget()); d.Retry != want || d.Retry && d.Wait < 0 || d.Wait > time.Minute {
				t.Errorf("%s: a %s is answered with %+v; want a retry: %v", policy, what, d, want)
			}
		}
	}
}

// A naive client waits 50 to 100 ms before it tries again, at random; who has a
// budget spends it; and one that cannot read tries again whatever it is told.
func TestClientsOfEachPolicy(t *testing.T) {
	refused := labels.New(labels.CostExceedsBurst, "orders", "default") // a retry cannot succeed
	naive := &parsed(t, "clients: { policy: naive, retries: 3 }\n").Clients
	for random, want := range map[float64]time.Duration{0: 50 * time.Millisecond, 0.5: 75 * time.Millisecond} {
		p, err := naive.ClientPolicy(func() float64 { return random })
		if err != nil {
			t.Fatal(err)
		}
		f := naive.Refused(&refused)
		if d := p.Next(&client.State{Kind: client.Read}, &f, client.NoDeadline, p.NewBudget()); !d.Retry || d.Wait != want {
			t.Errorf("with %v at random a naive client does %+v; want a retry after %v", random, d, want)
		}
	}
	driver := &parsed(t, "clients: { policy: driver }\n").Clients
	for name, doc := range map[string]*labels.Document{"that cannot succeed": &refused, "without a word": nil} {
		f := driver.Refused(doc)
		if want := doc == nil; f.Transient != want {
			t.Errorf("a driver makes of a refusal %s %+v; want that it is transient: %v", name, f, want)
		}
	}
	for text, want := range map[string]bool{"policy: driver": false, "policy: driver, budget: true": true} {
		p, err := parsed(t, "clients: { "+text+" }\n").Clients.ClientPolicy(nil)
		if err != nil || p.AdaptiveRetries != want {
			t.Errorf("%s: adaptive %v, %v; want %v", text, p.AdaptiveRetries, err, want)
		}
	}
}

// A mark weakens the bound on the side on which it is, and by something.
func TestMarks(t *testing.T) {
	s := parsed(t, "pass: [{ measure: good, atLeast: 0.5, known: [{ is: 0.4, why: w }] }]\n")
	c := &s.Pass[0]
	weaker := c.Weakened(&c.Known[0])
	for v, want := range map[float64]bool{0.4: true, 0.39: false, 1: true} {
		if weaker.Holds(v) != want {
			t.Errorf("%s: %v holds: %v", weaker, v, !want)
		}
	}
	if c.Holds(0.4) {
		t.Error("the target itself was weakened")
	}
	for _, bound := range []string{"atLeast", "atMost"} {
		_, err := scenario.Parse([]byte(smallest + "pass: [{ measure: good, " + bound + ": 0.5, known: [{ is: 0.5, why: w }] }]\n"))
		if err == nil || !strings.Contains(err.Error(), "weaker than the target") {
			t.Errorf("%s: a mark that is the target: %v", bound, err)
		}
	}
}
