package lab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
)

// threePatient is three requests at one second whose callers wait.
func threePatient(backend, more string) string {
	text := strings.Replace(three, "timeout: 150ms", "timeout: 4s", 1)
	return strings.Replace(strings.Replace(text, "workers: 1, ", "", 1), "CANCELLED", ", "+backend, 1) + more
}

// The backend serves to the nanosecond what it says of itself: workers, and what makes
// them slower while others are inside, or being served beside them.
func TestBackendServes(t *testing.T) {
	for name, tc := range map[string]struct {
		backend, more string
		want          []string
	}{
		"one worker":          {"workers: 1", "", []string{"1.1s", "1.2s", "1.3s"}},
		"two workers":         {"workers: 2", "", []string{"1.1s", "1.1s", "1.2s"}},
		"more than needed":    {"workers: 9", "", []string{"1.1s", "1.1s", "1.1s"}},
		"slow":                {"workers: 1", "health: [{ at: 500ms, slow: 2 }]\n", []string{"1.2s", "1.4s", "1.6s"}},
		"slow from now on":    {"workers: 1", "health: [{ at: 1050ms, slow: 2 }]\n", []string{"1.1s", "1.3s", "1.5s"}},
		"far away":            {"workers: 1", "health: [{ at: 0s, delay: 40ms }]\n", []string{"1.14s", "1.24s", "1.34s"}}, // the worker is free before the answer comes
		"frozen":              {"workers: 1", "health: [{ at: 0s, frozen: true }, { at: 2s }]\n", []string{"2.1s", "2.2s", "2.3s"}},
		"frozen while busy":   {"workers: 1", "health: [{ at: 1050ms, frozen: true }, { at: 2s }]\n", []string{"1.1s", "2.1s", "2.2s"}},
		"pauses":              {"workers: 1", "pauses: { every: 1150ms, for: 100ms }\n", []string{"1.1s", "1.2s", "1.35s"}},
		"a worker more":       {"workers: 1", "health: [{ at: 1050ms, workers: 2 }]\n", []string{"1.1s", "1.15s", "1.2s"}},
		"a worker less":       {"workers: 2", "health: [{ at: 1050ms, workers: 1 }]\n", []string{"1.1s", "1.1s", "1.2s"}},
		"thrash":              {"workers: 1, thrash: 0.5", "", []string{"1.1s", "1.25s", "1.35s"}},
		"in each other's way": {"workers: 2, contention: { serial: 0.5 }", "", []string{"1.1s", "1.15s", "1.25s"}},
		"one is shared":       {"workers: 1, discipline: sharing", "", []string{"1.3s", "1.3s", "1.3s"}},
		"two are shared":      {"workers: 2, discipline: sharing", "", []string{"1.15s", "1.15s", "1.15s"}},
		"no need to share":    {"workers: 3, discipline: sharing", "", []string{"1.1s", "1.1s", "1.1s"}},
		"shared, slow":        {"workers: 2, discipline: sharing", "health: [{ at: 1075ms, slow: 3 }]\n", []string{"1.3s", "1.3s", "1.3s"}},
		"shared, frozen":      {"workers: 2, discipline: sharing", "health: [{ at: 1075ms, frozen: true }, { at: 2s }]\n", []string{"2.075s", "2.075s", "2.075s"}},
		"shared by more":      {"workers: 1, discipline: sharing", "health: [{ at: 1150ms, workers: 3 }]\n", []string{"1.2s", "1.2s", "1.2s"}},
		"shared, thrash":      {"workers: 2, discipline: sharing, thrash: 1", "", []string{"1.3s", "1.3s", "1.3s"}},
		"shared, far away":    {"workers: 1, discipline: sharing", "health: [{ at: 0s, delay: 40ms }]\n", []string{"1.34s", "1.34s", "1.34s"}},
		"shared, contention":  {"workers: 3, discipline: sharing, contention: { serial: 0.5 }", "", []string{"1.2s", "1.2s", "1.2s"}},
		"talking":             {"workers: 2, contention: { crosstalk: 0.5 }", "", []string{"1.1s", "1.2s", "1.3s"}},
	} {
		s := onlyVariant(t, threePatient(tc.backend, tc.more))
		var lines []string
		c := lab.Contender{Name: "diary", New: func(w *lab.World) lab.Door { return diary{w, true, &lines} }}
		r, err := lab.Play(s, c, 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := make([]string, 0, len(tc.want))
		for _, at := range tc.want {
			want = append(want, at+" success")
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("%s: answers (-want +got):\n%s", name, diff)
		}
		if w := r.Windows[0]; w.Answered != 3 || w.Wasted != 0 {
			t.Errorf("%s: %d answered, %d wasted; want 3 and 0", name, w.Answered, w.Wasted)
		}
	}
}

// What a run shows over time is the state at the end of each half second, and the
// counts of what was due in it.
func TestStateOverTime(t *testing.T) {
	s := onlyVariant(t, strings.Replace(threePatient("workers: 1", ""), "mean: 100ms", "mean: 300ms", 1))
	s.Objective *= 7 // 700 ms: the first two are in time
	r, err := lab.Play(s, lab.Fixed(s, "fixed", 9), 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, step := range r.Series[:5] {
		got = append(got, fmt.Sprintf("%d: %d inside, the oldest for %v s, limit %d, %d offered, %d good, %d answered in %d attempts",
			i, step.Inside, step.QueueAge, step.Limit, step.Offered, step.Good, step.Answered, step.Attempts))
	}
	want := []string{
		"0: 0 inside, the oldest for 0 s, limit 0, 0 offered, 0 good, 0 answered in 0 attempts",
		"1: 3 inside, the oldest for 0 s, limit 9, 0 offered, 0 good, 0 answered in 0 attempts",
		"2: 2 inside, the oldest for 0.5 s, limit 9, 3 offered, 2 good, 3 answered in 3 attempts",
		"3: 0 inside, the oldest for 0 s, limit 9, 0 offered, 0 good, 0 answered in 0 attempts",
		"4: 0 inside, the oldest for 0 s, limit 9, 0 offered, 0 good, 0 answered in 0 attempts",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("over time (-want +got):\n%s", diff)
	}
	if measure.Grain != 500*time.Millisecond {
		t.Errorf("a step is %v; what documents say of it is half a second", measure.Grain)
	}
	// Quantiles are of the three latencies: 300, 600 and 900 ms.
	w := r.Windows[0]
	for what, v := range map[string][2]float64{"p50": {w.P50, 0.6}, "p99": {w.P99, 0.9}, "p999": {w.P999, 0.9}} {
		near(t, what, v[0], v[1], 0.001)
	}
}

// Where nobody is answered the latencies are what clients waited in vain, and a window
// has what was due in it, its beginning included and its end not.
func TestWindowsOfARun(t *testing.T) {
	text := strings.Replace(threePatient("workers: 1", "health: [{ at: 0s, frozen: true }]\n"), "windows: [{ name: all, from: 0s, to: 5s }]",
		"windows: [{ name: before, from: 0s, to: 1s }, { name: at, from: 1s, to: 2s }]", 1)
	r, err := lab.Play(onlyVariant(t, text), lab.None(), 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before, at := r.Windows[0], r.Windows[1]
	if before.Offered != 0 || at.Offered != 3 || at.Failed != 3 {
		t.Errorf("%d were offered before 1 s, %d in the second from then on, of which %d failed; want 0, 3, 3", before.Offered, at.Offered, at.Failed)
	}
	if at.P50 != 4 || at.P99 != 4 || at.P999 != 4 {
		t.Errorf("latencies of %v, %v and %v s; want the 4 s that everybody waited", at.P50, at.P99, at.P999)
	}
}

// Whoever follows virtual time is told of every step before it is made, up to the end:
// when the last request must have ended.
func TestAdvanceFollows(t *testing.T) {
	s := onlyVariant(t, smallest)
	var passed time.Duration
	c := watched(func(w *lab.World, _ lab.Request) {
		if w.Now() != int64(passed) {
			t.Fatalf("it is %v in the world, and %v of it were told", time.Duration(w.Now()), passed)
		}
	})
	_, err := lab.Play(s, c, 1, lab.PlayOptions{Advance: func(d time.Duration) {
		if d <= 0 {
			t.Fatalf("a step of %v", d)
		}
		passed += d
	}})
	if want := 10*time.Second + 5*time.Second + 31*time.Second; err != nil || passed != want {
		t.Errorf("%v of virtual time were told, %v; want %v: the load, what settles, and the longest wait", passed, err, want)
	}
}

// Requests that have a class go by it: with classes those of the noisy tenant make way
// for its neighbours under one limit, and without they do not.
func TestClassesGoFirst(t *testing.T) {
	neighbours := func(more string) float64 {
		s := onlyVariant(t, smallest+"share: one\nscale: 0.7\ntenants: { count: 4, noisy: 1.5 }\n"+more)
		r, err := lab.Play(s, lab.Fixed(s, "fixed", 12), 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, _ := r.Value("neighbours", "")
		return v
	}
	if with, without := neighbours("classes: true\n"), neighbours(""); with < 0.9 || without > with-0.05 {
		t.Errorf("neighbours are answered %.3f of the time with classes, %.3f without; want at least 0.9, and less: without a queue a fair part finds no place now and then", with, without)
	}
}

// Gates that share one limit have it between them: from a cold start eight let in what
// fewer would, and with the same seed they always do the same.
func TestGatesShareALimit(t *testing.T) {
	play := func(name string) *measure.Result {
		s, ok := shipped(t, "gates").Variant(name)
		if !ok {
			t.Fatalf("no variant %s", name)
		}
		s.For *= 4 // percent of its 100 s
		s.For /= 100
		for _, c := range lab.Contenders(s) {
			if c.Name == "knee+queue" {
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
	shared, alone := play("8 gates / cold / shared"), play("8 gates / cold / told not")
	at := len(shared.Series) - 3
	if got, each := shared.Series[at], alone.Series[at]; 2*got.Limit > each.Limit || got.Limit < 8 {
		t.Errorf("eight gates have %d together when they share, and %d when not; want half at most, and one each at least", got.Limit, each.Limit)
	}
	if diff := cmp.Diff(shared, play("8 gates / cold / shared")); diff != "" {
		t.Errorf("two runs of one seed differ:\n%s", diff)
	}
}

// A backend that stops when nobody listens has its worker and its places in the queue
// free for those who come next, and nothing of what was given up is finished.
func TestBackendStops(t *testing.T) {
	text := threePatient("workers: 1, queue: 2, cancelled: stops", "backendTimeout: 120ms\n")
	text = strings.Replace(text, "bursts: [{ at: 1s, requests: 3 }]", "bursts: [{ at: 1s, requests: 3 }, { at: 1125ms, requests: 3 }]", 1)
	var lines []string
	c := lab.Contender{Name: "diary", New: func(w *lab.World) lab.Door { return diary{w, true, &lines} }}
	r, err := lab.Play(onlyVariant(t, text), c, 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1.1s success", "1.12s dropped", "1.12s dropped", "1.225s success", "1.245s dropped", "1.245s dropped"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("permits (-want +got):\n%s", diff)
	}
	if n := r.Windows[0].Wasted; n != 0 {
		t.Errorf("%d were finished for nobody", n)
	}
}
