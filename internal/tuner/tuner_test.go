package tuner_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/tuner"
	"github.com/admitd/admitd/internal/tuner/policy"
	"github.com/admitd/admitd/internal/tuner/signal"
)

// fixedWish is a rule that wishes for one value, whatever is.
type fixedWish struct {
	value  float64
	panics bool
}

func (f *fixedWish) Observe(time.Time, []float64) {
	if f.panics {
		panic("a rule that is wrong")
	}
}

func (f *fixedWish) Wish(policy.Setting) policy.Wish {
	return policy.Wish{Value: f.value, Why: "it wants to"}
}
func (f *fixedWish) Moved(time.Time) {}

// wishing returns a policy without signals that wishes for one value.
func wishing(t *testing.T, name, adjust string, value float64) tuner.Policy {
	t.Helper()
	s, err := tuner.ParseSetting(adjust)
	if err != nil {
		t.Fatalf("ParseSetting: %v", err)
	}
	return tuner.Policy{Name: name, Rule: &fixedWish{value: value}, Adjust: s, Min: 10, Max: 1000}
}

func newTuner(t *testing.T, w *world, o tuner.Options) *tuner.Tuner {
	t.Helper()
	if o.Mode == "" {
		o.Mode = tuner.Act
	}
	u, err := tuner.New(w.now, w, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return u
}

func value(t *testing.T, w *world, setting string) float64 {
	t.Helper()
	s, err := tuner.ParseSetting(setting)
	if err != nil {
		t.Fatalf("ParseSetting: %v", err)
	}
	// Read through the tuner, which knows where a setting stands.
	p := wishing(t, "reader", setting, 0)
	p.Adjust = s
	u := newTuner(t, w, tuner.Options{Mode: tuner.Off, Policies: []tuner.Policy{p}})
	u.Tick(context.Background(), w.now)
	v := u.Status(0).Settings[0].Value
	if v == nil {
		return math.Inf(1)
	}
	return *v
}

// Of several policies on one setting the most careful wins, and the record says
// what the others wished.
func TestMostCarefulWins(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{
		wishing(t, "bold", "orders.requests.rate", 300), wishing(t, "careful", "orders.requests.rate", 150),
		wishing(t, "middling", "orders.requests.rate", 180),
	}})
	w.run(5*time.Second, u)
	if w.rate() != 150 {
		t.Fatalf("rate = %v; want 150", w.rate())
	}
	r := newest(t, u, tuner.KindChange)
	if r.Policy != "careful" || *r.Old != 200 || *r.New != 150 || len(r.Others) != 2 || !strings.Contains(r.Otherwise, "middling") {
		t.Errorf("record = %+v; want careful's, with the others' wishes", r)
	}
	if got := u.Status(0).Settings[0]; got.Policy != "careful" || !got.Changed {
		t.Errorf("status = %+v; want that careful decides", got)
	}
}

// A policy whose signal is not trusted holds the setting: nobody raises it, and
// who wants to lower it may.
func TestBlindPolicyHoldsStill(t *testing.T) {
	w := newWorld(t, 5000, 500, 200)
	blind := wishing(t, "blind", "orders.requests.rate", 900)
	blind.Signals = []string{"cpu"}
	bold := wishing(t, "bold", "orders.requests.rate", 300)
	u := newTuner(t, w, tuner.Options{
		Signals:  []tuner.Signal{{Name: "cpu", Options: signal.Options{MaxAge: 5 * time.Second}, Source: never{}}},
		Policies: []tuner.Policy{blind, bold},
	})
	u.Feed(w.now, "cpu", 1, time.Time{}, nil)
	w.run(2*time.Minute, u)
	if w.rate() != 200 {
		t.Errorf("rate = %v while a policy is blind; want 200", w.rate())
	}
	if r := newest(t, u, tuner.KindBlind); r.Policy != "blind" || !strings.Contains(r.Why, "stale") {
		t.Errorf("record = %+v; want that blind is blind, as cpu is stale", r)
	}
	bold.Rule.(*fixedWish).value = 100
	w.run(time.Minute, u)
	if w.rate() != 100 {
		t.Errorf("rate = %v; want 100: to lower is allowed", w.rate())
	}
	bold.Rule.(*fixedWish).value = 300
	w.each = func(w *world) { u.Feed(w.now, "cpu", 1, time.Time{}, nil) }
	w.run(time.Minute, u)
	newest(t, u, tuner.KindSeeing)
	if w.rate() != 300 {
		t.Errorf("rate = %v once it sees again; want 300", w.rate())
	}
}

// Advice is given once, not every ten seconds, and changes nothing.
// Steps and bounds cut what is wished; cooldown spaces the moves.
func TestBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		rate, wish, min, max, step float64
		after                      time.Duration
		want                       float64
		bound                      string
	}{
		"step down":                        {200, 20, 10, 1000, .1, 5 * time.Second, 180, "step"},
		"one step per cooldown":            {200, 20, 10, 1000, .1, 25 * time.Second, 145.8, "step"},
		"min":                              {200, 5, 150, 1000, 0, 5 * time.Second, 150, "min"},
		"max":                              {200, 5000, 10, 300, 0, 40 * time.Second, 300, "max"},
		"below min it is not pushed up":    {50, 20, 100, 1000, .1, time.Minute, 50, ""},
		"above max it is not pushed down":  {5000, 6000, 10, 1000, .1, time.Minute, 5000, ""},
		"above max it may be lowered":      {5000, 500, 10, 1000, .1, 5 * time.Second, 900, "step"},
		"from without bound, lowered":      {0, 500, 10, 1000, .1, 5 * time.Second, 900, "step"},
		"from without bound, nothing else": {0, 2000, 10, 1000, .1, time.Minute, math.Inf(1), ""},
		"not a number":                     {200, math.NaN(), 10, 1000, .1, time.Minute, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9000, 10000, tc.rate)
			p := wishing(t, "p", "orders.requests.rate", tc.wish)
			p.Min, p.Max, p.Step = tc.min, tc.max, tc.step
			u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
			w.run(tc.after, u)
			if w.rate() != tc.want {
				t.Errorf("rate = %v; want %v", w.rate(), tc.want)
			}
			if tc.bound != "" {
				if r := newest(t, u, tuner.KindChange); r.Bound != tc.bound {
					t.Errorf("bound = %q; want %q", r.Bound, tc.bound)
				}
			}
		})
	}
}

// What a person sets is left alone until it is released; a reload releases it
// too, since everything begins from the file.
// One command stops everything, and another takes everything back.
// Where there are several settings the first is tried alone: the others follow
// a lowering after one cooldown, and a raise once its trial is over.
func TestCanary(t *testing.T) {
	const first, second = "orders.partitions.default.limit.maxLimit", "orders.partitions.check.out.limit.maxLimit"
	w := newWorld(t, 5000, 500, 400)
	p := wishing(t, "p", "orders.partitions.*.limit.maxLimit", 50)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}, Trial: tuner.TrialOptions{Canary: true, For: time.Minute}})
	w.run(5*time.Second, u)
	if a, b := value(t, w, first), value(t, w, second); a != 50 || b != 100 {
		t.Fatalf("limits = %v, %v; want only the first to have moved", a, b)
	}
	w.run(10*time.Second, u)
	if b := value(t, w, second); b != 50 {
		t.Fatalf("limit = %v a cooldown later; want that it followed to 50", b)
	}
	w.run(2*time.Minute, u)
	p.Rule.(*fixedWish).value = 80
	w.run(50*time.Second, u)
	if a, b := value(t, w, first), value(t, w, second); a != 80 || b != 50 {
		t.Fatalf("limits = %v, %v during the trial of a raise; want 80, 50", a, b)
	}
	w.run(30*time.Second, u)
	if b := value(t, w, second); b != 80 {
		t.Errorf("limit = %v after the trial; want that it followed to 80", b)
	}
}

// A lowering that costs more goodput than it explains is taken back: here work
// fails once the rate is lowered.
func TestLoweringThatHarmsIsTakenBack(t *testing.T) {
	w := newWorld(t, 600, 1000, 400)
	p := wishing(t, "p", "orders.requests.rate", 400)
	u := newTuner(t, w, tuner.Options{
		Policies: []tuner.Policy{p}, Trial: tuner.TrialOptions{For: time.Minute, Objective: 100 * time.Millisecond},
	})
	w.run(time.Minute, u)
	p.Rule.(*fixedWish).value = 360
	w.each = func(w *world) {
		w.failing = 0
		if w.rate() < 400 {
			w.failing = .5
		}
	}
	w.run(time.Minute, u)
	r := newest(t, u, tuner.KindTakeBack)
	if *r.New != 400 || !strings.Contains(r.Why, "goodput") || r.Trial.GoodputAfter >= r.Trial.GoodputBefore {
		t.Errorf("record = %+v, trial %+v; want that goodput took it back to 400", r, r.Trial)
	}
	if w.rate() != 400 {
		t.Errorf("rate = %v; want it back at 400", w.rate())
	}
}

// A lowering that costs what it explains is kept.
func TestLoweringMayCost(t *testing.T) {
	w := newWorld(t, 600, 1000, 400)
	p := wishing(t, "p", "orders.requests.rate", 400)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
	w.run(time.Minute, u)
	p.Rule.(*fixedWish).value = 300
	w.run(2*time.Minute, u)
	if r := newest(t, u, tuner.KindChange); w.rate() != 300 || r.Trial.State != "kept" || r.Trial.GoodputAfter > 310 {
		t.Errorf("rate = %v, trial %+v; want 300, kept", w.rate(), r.Trial)
	}
}

// A demand that ends is not the tuner's fault, and one that begins is not its
// merit.
func TestDemandIsNotHarm(t *testing.T) {
	for name, demand := range map[string]float64{"falls": 50, "rises": 3000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 600, 10000, 400)
			u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 420)}})
			w.run(30*time.Second, u)
			newest(t, u, tuner.KindChange)
			w.demand = demand
			w.run(2*time.Minute, u)
			if slices.Contains(kinds(u), tuner.KindTakeBack) {
				t.Errorf("taken back: %+v", newest(t, u, tuner.KindTakeBack))
			}
		})
	}
}

// A rule that panics stops the tuner and nothing else, until somebody looked.
// A door that refuses is asked again after a cooldown, not every second.
// Every record is a line of the audit file, and a trial that ends is a later
// line under the same ID.
// The tuner that follows one keeps its records, its numbering and its freeze.
func TestValidate(t *testing.T) {
	p := wishing(t, "p", "orders.requests.rate", 1)
	p.Signals = []string{"nothing"}
	q := wishing(t, "p", "orders.requests.rate", 1)
	q.Min, q.Max, q.Step = 5, 1, 2
	_, err := tuner.New(start, nil, tuner.Options{
		Policies: []tuner.Policy{p, q}, Signals: []tuner.Signal{{Name: "s", Metric: "p98"}, {Name: "s", Source: never{}}},
	})
	for _, want := range []string{"no signal", "two policies", "bounds must hold", "step must be", "p98", "two signals"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v; want %q in it", err, want)
		}
	}
}

// The gate's own numbers are signals too.
func TestOwnSignals(t *testing.T) {
	w := newWorld(t, 500, 250, 200)
	var o tuner.Options
	want := map[string][2]float64{"p99": {.01, .05}, "p50": {.01, .05}, "refused": {290, 310}, "goodput": {190, 210}, "queued": {0, 0}, "inFlight": {0, 0}}
	for metric := range want {
		o.Signals = append(o.Signals, tuner.Signal{Name: metric, Ingress: "orders", Metric: metric})
	}
	u := newTuner(t, w, o)
	w.run(time.Minute, u)
	for _, s := range u.Status(0).Signals {
		if b := want[s.Name]; !s.Trusted || s.Value < b[0] || s.Value > b[1] {
			t.Errorf("%s = %+v; want within %v", s.Name, s, b)
		}
	}
}

// Every kind of setting goes through the door in the words of the
// configuration, and comes back as what it was set to.

// Without an objective of the trial that of the ingress counts: a raise that
// breaks it is taken back.
func TestObjectiveOfTheIngress(t *testing.T) {
	for name, objectives := range map[string]map[string]time.Duration{"stated": {"orders": 100 * time.Millisecond}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5000, 500, 400)
			w.objectives = objectives
			p := wishing(t, "p", "orders.requests.rate", 400)
			u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
			w.run(time.Minute, u)
			p.Rule.(*fixedWish).value = 550
			w.run(time.Minute, u)
			if took := slices.Contains(kinds(u), tuner.KindTakeBack); took != (objectives != nil) {
				t.Errorf("taken back: %v; want %v; %v", took, !took, kinds(u))
			}
		})
	}
}
