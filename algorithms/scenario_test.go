package algorithms_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
)

// capacity of the model backend: 8 workers of 10 ms.
const capacity = 800.0

// after returns value from the instant at on, and before it until then.
func after[T any](at time.Duration, before, value T) func(time.Duration) T {
	return func(now time.Duration) T {
		if now < at {
			return before
		}
		return value
	}
}

// model returns the backend with the given share of its capacity offered.
func model(load float64, warm, until time.Duration) world {
	return world{
		workers: 8, service: 10 * time.Millisecond, thrash: 0.002, objective: time.Second,
		load: load, parts: []time.Duration{warm}, until: until,
	}
}

// What each algorithm does with the contract's defaults on the five scenarios
// that overload protection is judged by. A pair that is not listed fails by a
// property of its formula: AIMD knows only its target of 200 ms and fills the
// queue up to it; the long average of Gradient2 follows the overload; Gradient,
// when it starts under load, tolerates twice the loaded latency; a fixed limit
// cannot follow a baseline.
func TestScenarios(t *testing.T) {
	steady2 := model(2, 30*time.Second, 90*time.Second)
	steady10 := model(10, 20*time.Second, 40*time.Second)
	light := model(0.6, 30*time.Second, 330*time.Second)
	brown := model(0.8, 60*time.Second, 80*time.Second)
	brown.slow = after(60*time.Second, 1.0, 2.5)
	shift := model(0.7, 80*time.Second, 140*time.Second)
	shift.delay = after(60*time.Second, 0, 40*time.Millisecond)
	far := model(0.7, 80*time.Second, 200*time.Second)
	far.delay = after(60*time.Second, 0, 200*time.Millisecond)

	for _, tc := range []struct {
		name  string
		world world
		kinds []string
		check func(tally) bool
	}{
		{
			"2x steady: goodput at least 0.97", steady2,
			[]string{algorithms.KindFixed, algorithms.KindVegas, algorithms.KindKnee},
			func(r tally) bool { return r.rate()/capacity >= 0.97 },
		},
		{
			"10x steady: goodput at least 0.95", steady10,
			[]string{algorithms.KindFixed, algorithms.KindVegas, algorithms.KindKnee},
			func(r tally) bool { return r.rate()/capacity >= 0.95 },
		},
		{
			"brown-out: goodput share at least 0.45", brown,
			[]string{algorithms.KindFixed, algorithms.KindVegas, algorithms.KindGradient, algorithms.KindGradient2, algorithms.KindKnee},
			func(r tally) bool { return r.goodput() >= 0.45 },
		},
		{
			"baseline 40 ms up: at most 1 % refused", shift,
			[]string{algorithms.KindAIMD, algorithms.KindVegas, algorithms.KindGradient, algorithms.KindGradient2, algorithms.KindKnee},
			func(r tally) bool { return r.refusals() <= 0.01 },
		},
		{
			// AIMD's formula alone goes to a limit of 1 and refuses 99 %.
			"baseline beyond the target: the gate stays open", far,
			[]string{algorithms.KindAIMD, algorithms.KindKnee},
			func(r tally) bool { return r.refusals() <= 0.5 },
		},
		{
			"0.6x steady: at most 0.1 % refused", light, kinds,
			func(r tally) bool { return r.refusals() <= 0.001 },
		},
	} {
		for _, kind := range tc.kinds {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(2) {
					var lim algorithms.Limit
					out := tc.world.play(func() algorithms.Limit { lim = newLimit(t, kind); return lim }, seed)
					r := out.parts[len(out.parts)-1]
					t.Logf("seed %d: goodput %.4f of capacity, %.4f of offered; refused %.4f %%; limit %d..%d, measured anew %v times",
						seed, r.rate()/capacity, r.goodput(), 100*r.refusals(), r.low, r.high, lim.State()["remeasured_total"])
					if !tc.check(r) {
						t.Errorf("seed %d: %+v", seed, r)
					}
				}
			})
		}
	}
}
