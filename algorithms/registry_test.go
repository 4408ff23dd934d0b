package algorithms_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/algorithms/parts"
)

// Every algorithm is in the list once, makes a limit of its own name, and the
// default comes first.
func TestRows(t *testing.T) {
	if got := algorithms.Kinds()[0]; got != algorithms.KindKnee {
		t.Errorf("Kinds()[0] = %s; want the default, knee", got)
	}
	seen := map[string]bool{}
	for _, r := range algorithms.Rows() {
		if seen[r.Name] {
			t.Errorf("%s is registered twice", r.Name)
		}
		seen[r.Name] = true
		lim, err := algorithms.New(algorithms.Settings{Algorithm: r.Name})
		if err != nil {
			t.Fatalf("New(%s): %v", r.Name, err)
		}
		if got := lim.Algorithm(); got != r.Name {
			t.Errorf("the limit of %s calls itself %s", r.Name, got)
		}
		for _, k := range r.Keys {
			if k.Name == "" || k.Default == nil {
				t.Errorf("%s has a key without name or default: %+v", r.Name, k)
			}
		}
	}
}

// Gates that share a backend divide what they would each have alone: eight
// limits of 20 before eight workers were a queue of 160.
func TestGatesDivide(t *testing.T) {
	for _, kind := range algorithms.Kinds() {
		s := algorithms.Settings{Algorithm: kind, Gates: 8}
		lim, err := algorithms.New(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := lim.Current(); got != 3 {
			t.Errorf("%s: Current() = %d as one of eight gates; want an eighth of 20, rounded up", kind, got)
		}
		alone := newLimit(t, kind)
		if high, ok := lim.State()["max_limit"]; ok && high != alone.State()["max_limit"]/8 {
			t.Errorf("%s: max_limit = %v as one of eight gates, %v alone; want an eighth", kind, high, alone.State()["max_limit"])
		}
	}
}

// AIMD's target is four fifths of what is promised, unless the key says more.
func TestObjectiveIsATarget(t *testing.T) {
	target := func(s algorithms.Settings) float64 {
		s.Algorithm = algorithms.KindAIMD
		lim, err := algorithms.New(s)
		if err != nil {
			t.Fatal(err)
		}
		return lim.State()["target_rtt_seconds"]
	}
	if got := target(algorithms.Settings{Objective: 100 * time.Millisecond}); got != 0.08 {
		t.Errorf("target %v s with an objective of 100 ms; want 0.08", got)
	}
	s := algorithms.Settings{Objective: 100 * time.Millisecond}
	s.RequestTimeout = 50 * time.Millisecond
	if got := target(s); got != 0.05 {
		t.Errorf("target %v s with a requestTimeout of 50 ms; want 0.05", got)
	}
	if got := target(algorithms.Settings{}); got != 0.2 {
		t.Errorf("target %v s without an objective; want 0.2", got)
	}
}

// Whatever moves a limit has a name, and the name is in the closed set.
func TestWhy(t *testing.T) {
	for _, kind := range algorithms.Kinds() {
		if kind == algorithms.KindFixed {
			continue
		}
		lim := newLimit(t, kind)
		told, ok := lim.(interface{ Why() string })
		if !ok {
			t.Errorf("%s has no Why", kind)
			continue
		}
		if got := told.Why(); got != "" {
			t.Errorf("%s: Why() = %q before anything happened", kind, got)
		}
		before := lim.Current()
		for i := range 400 {
			lim.Observe(int64(i)*int64(50*time.Millisecond), 10*time.Millisecond, before, true)
		}
		if lim.Current() >= before {
			t.Errorf("%s: limit %d after nothing but drops; want less than %d", kind, lim.Current(), before)
		}
		if got := told.Why(); got != parts.WhyDrops {
			t.Errorf("%s: Why() = %q after drops; want %q", kind, got, parts.WhyDrops)
		}
		if state := lim.State(); state["changed_to"] != float64(lim.Current()) || state["changed_at_seconds"] <= 0 {
			t.Errorf("%s: changed_to %v at %v s; want %d, later than the beginning",
				kind, state["changed_to"], state["changed_at_seconds"], lim.Current())
		}
		if !slices.Contains(parts.Whys(), told.Why()) {
			t.Errorf("%s: %q is no word of the set", kind, told.Why())
		}
	}
}

// What operators read of each algorithm's inside is what the documents say of it:
// half of it was not there, and half of what was there did not exist for knee.
func TestStatesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	const windowed = "vegas, gradient, gradient2, aimd"
	want := map[string][]string{} // by algorithm
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| ([a-z0-9, ]+) \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		of := strings.ReplaceAll(row[2], "windowed", windowed)
		if of == "all" {
			of = strings.Join(algorithms.Kinds(), ", ")
		}
		for kind := range strings.SplitSeq(of, ", ") {
			want[kind] = append(want[kind], strings.Split(strings.Trim(row[1], "`"), "`, `")...)
		}
	}
	for _, kind := range algorithms.Kinds() {
		limit, err := algorithms.New(algorithms.Settings{Algorithm: kind})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want[kind])
		var told []string // a count is documented as an event of admitd_algorithm_events_total
		for name := range limit.State() {
			told = append(told, strings.TrimSuffix(name, "_total"))
		}
		slices.Sort(told)
		if diff := cmp.Diff(want[kind], told); diff != "" {
			t.Errorf("%s: docs/metrics.md and what it tells (-docs +told):\n%s", kind, diff)
		}
	}
}
