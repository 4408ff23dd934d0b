package tuner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/tuner"
)

// trialOfARaise raises the rate from 400 before a backend that does 500, lets each
// happen every second, and returns the tuner once the trial of a minute is over.
func trialOfARaise(t *testing.T, to float64, each func(w *world, since time.Duration)) (*world, *tuner.Tuner) {
	t.Helper()
	w := newWorld(t, 5000, 500, 400)
	p := wishing(t, "p", "orders.requests.rate", 400)
	u := newTuner(t, w, tuner.Options{
		Policies: []tuner.Policy{p}, Trial: tuner.TrialOptions{For: time.Minute, Objective: 100 * time.Millisecond},
	})
	w.run(time.Minute, u)
	p.Rule.(*fixedWish).value = to
	began := w.now
	w.each = func(w *world) { each(w, w.now.Sub(began)) }
	w.run(90*time.Second, u)
	return w, u
}

// A raise whose trial had hardly any traffic was kept, since "neither the objective
// nor goodput got worse", also where the p99 that was shown had become ten times
// what it was: bins without traffic counted as measured. It could not be judged,
// and a raise that was not judged does not stay. Nobody is to blame for it.
func TestRaiseWithoutTrafficIsTakenBack(t *testing.T) {
	w, u := trialOfARaise(t, 550, func(w *world, since time.Duration) {
		if since > 5*time.Second { // before a third bin can show that the objective is broken
			w.demand = 0
		}
	})
	change, back := newest(t, u, tuner.KindChange), newest(t, u, tuner.KindTakeBack)
	if w.rate() != 400 || *back.New != 400 || !strings.Contains(back.Why, "not be judged") {
		t.Errorf("rate = %v, record %+v; want it back at 400, as it could not be judged", w.rate(), back)
	}
	if tr := change.Trial; tr.State != "taken back" || !strings.Contains(tr.Test, "not be judged") || tr.P99After <= 2*tr.P99Before {
		t.Errorf("trial = %+v; want that it was not judged, with the p99 that rose", tr)
	}
	if p := u.Status(0).Policies[0]; p.Reverts != 0 {
		t.Errorf("policy = %+v; want no take-back held against it", p)
	}
}

// Traffic that ends when enough was seen ends no trial: the raise did well as long
// as there was something to see.
func TestRaiseThatWasSeenIsKept(t *testing.T) {
	w, u := trialOfARaise(t, 420, func(w *world, since time.Duration) {
		if since > 30*time.Second {
			w.demand = 0
		}
	})
	if r := newest(t, u, tuner.KindChange); w.rate() != 420 || r.Trial.State != "kept" {
		t.Errorf("rate = %v, trial %+v; want 420, kept", w.rate(), r.Trial)
	}
}

// Traffic too thin for a p99 is judged by its goodput, so that a rate that was
// lowered to next to nothing finds its way back.
func TestThinTrafficIsJudgedByGoodput(t *testing.T) {
	w := newWorld(t, 5, 500, 1)
	p := wishing(t, "p", "orders.requests.rate", 1.2)
	p.Min = 1
	u := newTuner(t, w, tuner.Options{
		Policies: []tuner.Policy{p}, Trial: tuner.TrialOptions{For: time.Minute, Objective: 100 * time.Millisecond},
	})
	w.run(2*time.Minute, u)
	if r := newest(t, u, tuner.KindChange); w.rate() != 1.2 || r.Trial.State != "kept" {
		t.Errorf("rate = %v, trial %+v; want 1.2, kept", w.rate(), r.Trial)
	}
}

// A lowering that could not be judged stays: it lets nothing in that could do harm.
func TestLoweringWithoutTrafficStays(t *testing.T) {
	w, u := trialOfARaise(t, 300, func(w *world, since time.Duration) {
		if since > 8*time.Second {
			w.demand = 0
		}
	})
	if r := newest(t, u, tuner.KindChange); w.rate() != 300 || r.Trial.State != "not judged" {
		t.Errorf("rate = %v, trial %+v; want 300, not judged", w.rate(), r.Trial)
	}
}

// A gate that nobody asked for anything for minutes is nothing to compare with: a
// raise waits until enough of today's traffic was seen.
func TestSilenceIsNothingToCompareWith(t *testing.T) {
	w := newWorld(t, 0, 500, 300)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 400)}})
	w.run(5*time.Minute, u)
	w.demand = 5000
	w.run(10*time.Second, u)
	if s := u.Status(0).Settings[0]; w.rate() != 300 || !strings.Contains(s.Why, "compare with") {
		t.Errorf("rate = %v, status %+v; want 300 after ten seconds of traffic", w.rate(), s)
	}
	w.run(20*time.Second, u)
	if w.rate() != 400 {
		t.Errorf("rate = %v; want 400 once there is something to compare with", w.rate())
	}
}

// A canary's raise that was not judged does not spread.
func TestCanaryWithoutTrafficDoesNotSpread(t *testing.T) {
	const first, second = "orders.partitions.default.limit.maxLimit", "orders.partitions.check.out.limit.maxLimit"
	w := newWorld(t, 5000, 500, 400)
	p := wishing(t, "p", "orders.partitions.*.limit.maxLimit", 120)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}, Trial: tuner.TrialOptions{Canary: true, For: time.Minute}})
	w.run(20*time.Second, u)
	if a := value(t, w, first); a != 120 {
		t.Fatalf("limit = %v; want that the first moved to 120", a)
	}
	w.demand = 0
	w.run(2*time.Minute, u)
	if a, b := value(t, w, first), value(t, w, second); a != 100 || b != 100 {
		t.Errorf("limits = %v, %v; want both as in the file, as nothing was judged", a, b)
	}
}

// The words of a take-back are those of the documentation: before, the objective
// was kept mostly, not always.
func TestWordsOfABrokenObjective(t *testing.T) {
	_, u := trialOfARaise(t, 550, func(*world, time.Duration) {})
	const want = "p99 was above the objective of 0.1s in 3 bins in a row, and mostly was not before"
	if r := newest(t, u, tuner.KindTakeBack); r.Why != want {
		t.Errorf("why = %q; want %q", r.Why, want)
	}
}
