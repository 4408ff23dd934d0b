package tuner_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/tuner"
	"github.com/admitd/admitd/internal/tuner/policy"
	"github.com/admitd/admitd/internal/tuner/signal"
)

// handTuned is what somebody would set who knows the backend: at this rate it
// is busy to 80 %.
const handTuned = 400

// cpuGuard is a tuner with the CPU guard of the documents.
func cpuGuard(t *testing.T, w *world) *tuner.Tuner {
	t.Helper()
	adjust, err := tuner.ParseSetting("orders.requests.rate")
	if err != nil {
		t.Fatalf("ParseSetting: %v", err)
	}
	u, err := tuner.New(w.now, w, tuner.Options{
		Mode: tuner.Act,
		Signals: []tuner.Signal{{
			Name: "cpu", Options: signal.Options{Window: 10 * time.Second, MaxAge: 20 * time.Second, Max: 1, StuckFor: time.Minute}, Source: never{},
		}},
		Policies: []tuner.Policy{{
			Name: "cpu-guard", Rule: &policy.Target{Target: .8, Step: .1}, Signals: []string{"cpu"},
			Adjust: adjust, Min: 20, Max: 5000, Step: .1, Cooldown: 10 * time.Second,
		}},
		Trial: tuner.TrialOptions{For: time.Minute, Objective: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return u
}

// never is a source that tests feed by hand.
type never struct{}

func (never) Read(context.Context) (float64, time.Time, error) {
	return 0, time.Time{}, errors.New("not read")
}

// From five times too high and five times too low the guard comes within a
// tenth of what a person would set, within ten minutes, and stays there.
func TestConverges(t *testing.T) {
	for name, rate := range map[string]float64{"five times too high": 5 * handTuned, "five times too low": handTuned / 5} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5000, 500, rate)
			u := cpuGuard(t, w)
			w.each = func(w *world) { u.Feed(w.now, "cpu", w.cpu(), time.Time{}, nil) }
			w.run(10*time.Minute, u)
			if r := w.rate(); r < .9*handTuned || r > 1.1*handTuned {
				t.Fatalf("after 10 min the rate is %v; want %v within 10 %%; %v", r, handTuned, kinds(u))
			}
			took, changes := w.now.Sub(start), u.Status(0).Policies[0].Changes
			t.Logf("rate %v after %v, %d changes, objective broken for %v", w.rate(), took, changes, w.brokenTotal)
			w.run(10*time.Minute, u)
			if r := w.rate(); r < .9*handTuned || r > 1.1*handTuned {
				t.Errorf("10 min later the rate is %v; want %v within 10 %%", r, handTuned)
			}
			if name == "five times too low" && w.brokenTotal > 0 {
				t.Errorf("the objective was broken for %v on the way up; want never", w.brokenTotal)
			}
		})
	}
}

// Whatever becomes of the signal, the objective is not broken for more than 30
// seconds because of the tuner, and the rate stays within its bounds. Nothing
// is wrong with the backend here: any break is the tuner's.
func TestFaultMatrix(t *testing.T) {
	delayed := func() func(*world, *tuner.Tuner) {
		var past []float64
		return func(w *world, u *tuner.Tuner) {
			past = append(past, w.cpu())
			u.Feed(w.now, "cpu", past[max(len(past)-60, 0)], time.Time{}, nil)
		}
	}
	plain := func(w *world, u *tuner.Tuner) { u.Feed(w.now, "cpu", w.cpu(), time.Time{}, nil) }
	second := func(w *world) int { return int(w.now.Sub(start).Seconds()) }
	for name, fault := range map[string]func(*world, *tuner.Tuner){
		"none":                            plain,
		"stale":                           func(*world, *tuner.Tuner) {},
		"NaN":                             func(w *world, u *tuner.Tuner) { u.Feed(w.now, "cpu", math.NaN(), time.Time{}, nil) },
		"delayed by 60 s":                 delayed(),
		"delayed by 60 s, and it says so": func(w *world, u *tuner.Tuner) { u.Feed(w.now, "cpu", w.cpu(), w.now.Add(-time.Minute), nil) },
		"constant, low":                   func(w *world, u *tuner.Tuner) { u.Feed(w.now, "cpu", .1, time.Time{}, nil) },
		"almost constant, low": func(w *world, u *tuner.Tuner) {
			u.Feed(w.now, "cpu", .1+.001*math.Sin(float64(second(w))), time.Time{}, nil)
		},
		"inverted": func(w *world, u *tuner.Tuner) { u.Feed(w.now, "cpu", 1-w.cpu(), time.Time{}, nil) },
		"spikes": func(w *world, u *tuner.Tuner) {
			u.Feed(w.now, "cpu", w.cpu()*[]float64{1, 1, 1, 1, .01, 1, 1, 1, 1, 1.1}[second(w)%10], time.Time{}, nil)
		},
		"missing": func(w *world, u *tuner.Tuner) { u.Feed(w.now, "cpu", 0, time.Time{}, errors.New("connection refused")) },
		"comes and goes, low when it does": func(w *world, u *tuner.Tuner) {
			if second(w)%40 < 20 {
				u.Feed(w.now, "cpu", .3+.001*float64(second(w)%7), time.Time{}, nil)
			}
		},
	} {
		for from, rate := range map[string]float64{"settled": handTuned, "on the way up": handTuned / 3} {
			t.Run(name+", "+from, func(t *testing.T) {
				w := newWorld(t, 5000, 500, rate)
				u := cpuGuard(t, w)
				w.each = func(w *world) { plain(w, u) }
				w.run(time.Minute, u)
				w.each = func(w *world) { fault(w, u) }
				lowest := math.Inf(1)
				for range 3600 {
					w.run(time.Second, u)
					lowest = min(lowest, w.rate())
				}
				if w.longestBroken > 30*time.Second {
					t.Errorf("the objective was broken for %v in one go; want at most 30 s; %v", w.longestBroken, kinds(u))
				}
				if lowest < 20 {
					t.Errorf("the rate fell to %v, below its bound of 20", lowest)
				}
				p := u.Status(0).Policies[0]
				t.Logf("rate %v, broken %v at most and %v in all, %d changes, %d taken back, locked %v, held %q",
					w.rate(), w.longestBroken, w.brokenTotal, p.Changes, p.Reverts, p.Locked, p.Held)
			})
		}
	}
}

// The same for faults that lie outside the signal.
func TestFaultsAround(t *testing.T) {
	one := func(t *testing.T, w *world) []*tuner.Tuner {
		t.Helper()
		return []*tuner.Tuner{cpuGuard(t, w)}
	}
	two := func(t *testing.T, w *world) []*tuner.Tuner {
		t.Helper()
		w.write(t, handTuned/2)
		return []*tuner.Tuner{cpuGuard(t, w), cpuGuard(t, w)}
	}
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *world) []*tuner.Tuner
		each    func(*testing.T, *world, int)
	}{
		"the clock jumps": {
			one,
			func(_ *testing.T, w *world, second int) {
				switch second % 600 {
				case 200:
					w.now = w.now.Add(time.Hour)
				case 400:
					w.now = w.now.Add(-2 * time.Hour)
				}
			},
		},
		"the clock is not trusted now and then": {
			one,
			func(_ *testing.T, w *world, second int) {
				w.hold = ""
				if second%100 < 40 {
					w.hold = "the clock is not trusted"
				}
			},
		},
		"reloads meanwhile": {
			one,
			func(t *testing.T, w *world, second int) {
				t.Helper()
				if second%97 == 0 {
					w.reload(t)
				}
			},
		},
		"two tuners on one gate": {
			two,
			func(*testing.T, *world, int) {},
		},
		"two tuners on one gate, of which one is blind": {
			two,
			func(*testing.T, *world, int) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5000, 500, handTuned)
			tuners := tc.prepare(t, w)
			w.each = func(w *world) {
				tuners[0].Feed(w.now, "cpu", w.cpu(), time.Time{}, nil)
				if len(tuners) > 1 && name != "two tuners on one gate, of which one is blind" {
					tuners[1].Feed(w.now, "cpu", w.cpu(), time.Time{}, nil)
				}
			}
			for second := range 3600 {
				tc.each(t, w, second+1)
				w.run(time.Second, tuners...)
			}
			if w.longestBroken > 30*time.Second {
				t.Errorf("the objective was broken for %v in one go; want at most 30 s", w.longestBroken)
			}
			if r := w.rate(); r < 20 || r > 1.1*handTuned {
				t.Errorf("the rate ended at %v; want within the bounds and at most a tenth above %v", r, handTuned)
			}
			t.Logf("rate %v, broken %v at most, %v in all; %v", w.rate(), w.longestBroken, w.brokenTotal, tuners[0].Status(0).Policies)
		})
	}
}

// An exporter that does half of its speed for ten minutes: what waits for it
// stays bounded, and is gone some time after it recovered.
func TestBacklogStaysBounded(t *testing.T) {
	const acceptable = 10_000
	run := func(act bool) (most, last float64) {
		w := newWorld(t, 900, 10_000, 1000)
		adjust, err := tuner.ParseSetting("orders.requests.rate")
		if err != nil {
			t.Fatalf("ParseSetting: %v", err)
		}
		mode := tuner.Advise
		if act {
			mode = tuner.Act
		}
		u, err := tuner.New(w.now, w, tuner.Options{
			Mode: mode,
			Signals: []tuner.Signal{
				{Name: "backlog", Options: signal.Options{Spike: -1}, Source: never{}},
				{Name: "drained", Options: signal.Options{Rate: true, Window: 15 * time.Second}, Source: never{}},
			},
			Policies: []tuner.Policy{{
				Name: "flow", Rule: &policy.Backlog{Acceptable: acceptable, Minimum: 100, Limit: 1000},
				Signals: []string{"backlog", "drained"}, Adjust: adjust, Min: 100, Max: 1000, Cooldown: 15 * time.Second,
			}},
		})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		backlog, drained := 0.0, 0.0
		w.each = func(w *world) {
			speed := 1000.0
			if gone := w.now.Sub(start); gone > 5*time.Minute && gone <= 15*time.Minute {
				speed = 500
			}
			backlog += min(w.demand, w.rate())
			done := min(backlog, speed)
			backlog -= done
			drained += done
			most = max(most, backlog)
			u.Feed(w.now, "backlog", backlog, time.Time{}, nil)
			u.Feed(w.now, "drained", drained, time.Time{}, nil)
		}
		w.run(30*time.Minute, u)
		return most, backlog
	}
	without, _ := run(false)
	most, last := run(true)
	t.Logf("largest backlog %v, without the tuner %v; at the end %v", most, without, last)
	if most > 2*acceptable {
		t.Errorf("the backlog grew to %v; want at most twice the acceptable %v", most, acceptable)
	}
	if last > 0 {
		t.Errorf("a backlog of %v is left a quarter of an hour after the exporter recovered; want 0", last)
	}
	if without < 10*acceptable {
		t.Errorf("without the tuner the backlog grew to %v only: the scenario proves nothing", without)
	}
}
