package lab_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/limiter"
)

// probe is a door that lets everything pass and shows its world to a test.
type probe struct {
	w     *lab.World
	enter func(w *lab.World, r lab.Request)
}

func (p probe) Enter(r lab.Request, e lab.Entrant) func() {
	p.enter(p.w, r)
	e.Admitted(lab.EndFunc(func(limiter.Outcome) {}))
	return nil
}

func (probe) Limit() int { return 0 }

// watched is a contender of probes.
func watched(enter func(w *lab.World, r lab.Request)) lab.Contender {
	return lab.Contender{Name: "probe", New: func(w *lab.World) lab.Door { return probe{w, enter} }}
}

// run plays the smallest scenario with more lines.
func run(t *testing.T, more string, c lab.Contender) *measure.Result {
	t.Helper()
	s, _ := parsed(t, smallest+more).Variant("default")
	r, err := lab.Play(s, c, 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Events are played in the order of their times, those of one instant in the order
// in which they were asked for, and none in the past.
func TestEventsAreInOrder(t *testing.T) {
	var got []string
	began := false
	run(t, "", watched(func(w *lab.World, _ lab.Request) {
		if began {
			return
		}
		began = true
		start := w.Now()
		note := func(what string) func() {
			return func() { got = append(got, fmt.Sprintf("%s at %v", what, time.Duration(w.Now()-start))) }
		}
		w.After(2*time.Second, note("late"))
		w.After(time.Second, note("first of two"))
		w.After(time.Second, note("second of two"))
		w.After(-time.Hour, note("in the past"))
		w.At(start-5, note("before now"))
		w.After(time.Second, func() {
			note("third of two")()
			w.After(0, note("asked for meanwhile"))
		})
	}))
	want := []string{
		"in the past at 0s", "before now at 0s", "first of two at 1s", "second of two at 1s", "third of two at 1s", "asked for meanwhile at 1s", "late at 2s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Requests come when the load says, with what their clients say of themselves.
func TestRequests(t *testing.T) {
	counts := map[string]int{}
	var times []int64
	r := run(t, `
tenants: { count: 4, noisy: 0.5 }
timeout: 300ms
clients: { tellDeadline: true }
bursts: [{ at: 3s, requests: 100 }, { at: 4s, every: 2s, requests: 10 }]
`, watched(func(w *lab.World, r lab.Request) {
		counts[r.Key]++
		times = append(times, w.Now())
		if r.Patience != 300*time.Millisecond || r.Cost != 1 {
			t.Fatalf("a request of cost %v with a patience of %v; want 1 and the timeout", r.Cost, r.Patience)
		}
	}))
	total := 0
	for _, n := range counts {
		total += n
	}
	if w := r.Windows[0]; w.Offered != total || w.Attempts != total {
		t.Errorf("%d requests were counted in %d attempts; %d came", w.Offered, w.Attempts, total)
	}
	if want := 4000; counts["noisy"] < want*9/10 || counts["noisy"] > want*11/10 {
		t.Errorf("%d requests of the noisy tenant; want about %d, half of the capacity", counts["noisy"], want)
	}
	for i := range 4 {
		if n := counts[fmt.Sprintf("tenant-%d", i)]; n < 1800 || n > 2300 {
			t.Errorf("%d requests of tenant %d; want a quarter of the load", n, i)
		}
	}
	at := func(d time.Duration) (n int) {
		for _, x := range times {
			if x == int64(d) {
				n++
			}
		}
		return n
	}
	for d, want := range map[time.Duration]int{3 * time.Second: 100, 4 * time.Second: 10, 6 * time.Second: 10, 8 * time.Second: 10, 5 * time.Second: 0} {
		if got := at(d); got != want {
			t.Errorf("%d requests at %v; want the %d of the burst", got, d, want)
		}
	}
	if last := slices.Max(times); last >= int64(10*time.Second) {
		t.Errorf("a request came at %v, after the end", time.Duration(last))
	}
}

// Batches arrive at one instant and leave the mean what it is.
func TestBatches(t *testing.T) {
	at := map[int64]int{}
	r := run(t, "arrivals: { batch: 5 }\n", watched(func(w *lab.World, _ lab.Request) { at[w.Now()]++ }))
	for when, n := range at {
		if n%5 != 0 {
			t.Fatalf("%d requests at %v; want fives", n, time.Duration(when))
		}
	}
	if n := r.Windows[0].Offered; n < 7200 || n > 8800 {
		t.Errorf("%d requests; want about 8000, as without batches", n)
	}
}

// What happened over time is in steps of half a second that sum up to the whole,
// and a refusal is a false one only where the backend had room for all.
func TestSeries(t *testing.T) {
	fixed := func(more string) *measure.Result {
		s, _ := parsed(t, smallest+more).Variant("default")
		r, err := lab.Play(s, lab.Fixed(s, "fixed", 1), 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, tc := range map[string]struct {
		more  string
		false bool
	}{
		"with room":       {"scale: 0.5\n", true},
		"without":         {"scale: 1.5\n", false},
		"while it is ill": {"scale: 0.5\nhealth: [{ at: 0s, slow: 4 }]\n", false},
	} {
		r := fixed(tc.more)
		var sum measure.Step
		for _, s := range r.Series {
			sum.Offered, sum.Good, sum.Answered = sum.Offered+s.Offered, sum.Good+s.Good, sum.Answered+s.Answered
			sum.Refused, sum.Failed, sum.Attempts = sum.Refused+s.Refused, sum.Failed+s.Failed, sum.Attempts+s.Attempts
		}
		w := r.Windows[0]
		if len(r.Series) != 21 || sum.Offered != w.Offered || sum.Good != w.Good || sum.Answered != w.Answered || sum.Refused != w.Refused || sum.Failed != w.Failed || sum.Attempts != w.Attempts {
			t.Errorf("%s: %d steps sum up to %+v; want 21 and %+v", name, len(r.Series), sum, w)
		}
		if r.Series[10].Limit != 1 || r.Series[10].Inside > 1 {
			t.Errorf("%s: a step has a limit of %d and %d inside; want 1, kept", name, r.Series[10].Limit, r.Series[10].Inside)
		}
		if w.Refused == 0 || (w.FalseRefused == w.Refused) != tc.false || (w.FalseRefused == 0) == tc.false {
			t.Errorf("%s: %d of %d refusals are false ones", name, w.FalseRefused, w.Refused)
		}
		if r.Leaked != 0 {
			t.Errorf("%s: %d permits leaked", name, r.Leaked)
		}
	}
}

// The time to recover counts from the end of the trigger to the last bad half second.
func TestRecovery(t *testing.T) {
	for more, want := range map[string]float64{
		"scale: 0.3\n": 0, // there is no trigger
		"scale: 0.3\ntrigger: { from: 2s, to: 4s }\nhealth: [{ at: 2s, frozen: true }, { at: 4s }]\n":   2,
		"scale: 0.3\ntrigger: { from: 2s, to: 4s }\nhealth: [{ at: 2s, frozen: true }, { at: 5.2s }]\n": 5.5, // what has piled up is served late
		"scale: 0.3\ntrigger: { from: 2s, to: 4s }\n":                                                   0,
	} {
		r := run(t, more, lab.None())
		if diff := r.Recover - want; diff < -1 || diff > 1 {
			t.Errorf("%q: recovered after %v s; want about %v", more, r.Recover, want)
		}
	}
}

// A policy that is applied again and again loses no permit and moves no limit.
func TestReloads(t *testing.T) {
	const more = "scale: 2\nclients: { tellDeadline: true }\n"
	play := func(more string) *measure.Result {
		s, _ := parsed(t, smallest+more).Variant("default")
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
	plain, reloaded := play(more), play(more+"reloadEvery: 70ms\n")
	if diff := cmp.Diff(plain, reloaded); diff != "" {
		t.Errorf("reloads change a run (-without +with):\n%s", diff)
	}
}

// Clients that retry everything multiply the load of a backend that fails; those
// with a budget do not.
func TestRetriesMultiply(t *testing.T) {
	const ill = "timeout: 200ms\nhealth: [{ at: 1s, frozen: true }]\n"
	for clients, bounds := range map[string][2]float64{
		"clients: { policy: none }\n":                             {1, 1},
		"clients: { policy: naive, retries: 3 }\n":                {3.5, 4},
		"clients: { policy: driver, budget: true }\n":             {1, 1.2},
		"clients: { policy: naive, retries: -1, deadline: 2s }\n": {6, 9},
	} {
		r := run(t, ill+clients, lab.None())
		got, _ := r.Value("attempts", "")
		if got < bounds[0] || got > bounds[1] {
			t.Errorf("%s: %.2f attempts per request before a backend that hangs; want %v", clients, got, bounds)
		}
	}
}

// Gates share a fixed limit, each with its part and at least one.
func TestFixedIsDivided(t *testing.T) {
	for gates, want := range map[int]int{1: 16, 4: 16, 16: 16, 64: 64} {
		s, _ := parsed(t, smallest+fmt.Sprintf("scale: 3\ngates: %d\n", gates)).Variant("default")
		r, err := lab.Play(s, lab.Fixed(s, "fixed", 16), 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Series[10].Limit; got != want {
			t.Errorf("%d gates have a limit of %d together; want %d", gates, got, want)
		}
	}
}

// A run of a scenario that bends time with a fault nobody knows is refused.
func TestPlayRefuses(t *testing.T) {
	s, _ := parsed(t, smallest).Variant("default")
	s.Clock = "melted@1s"
	if _, err := lab.Play(s, lab.None(), 1, lab.PlayOptions{}); err == nil {
		t.Error("an unknown fault was played")
	}
	s.Clock, s.Clients.Policy = "", "eager"
	if _, err := lab.Play(s, lab.None(), 1, lab.PlayOptions{}); err == nil {
		t.Error("an unknown policy was played")
	}
}
