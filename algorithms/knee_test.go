package algorithms_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/algorithms/knee"
	"github.com/admitd/admitd/algorithms/parts"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// kneeLimit returns what makes one, for [world.play].
func kneeLimit(o knee.Options) func() algorithms.Limit {
	return func() algorithms.Limit { return knee.New(o) }
}

// mean plays a world for three seeds and averages what measure sees.
func mean(w world, limit func() algorithms.Limit, measure func(outcome) float64) float64 {
	sum := 0.0
	for seed := range uint64(3) {
		sum += measure(w.play(limit, seed+100))
	}
	return sum / 3
}

// base returns a backend of workers with a mean service, under load of its
// capacity, whose callers wait a hundred services.
func base(workers int, service time.Duration, load float64) world {
	return world{workers: workers, service: service, thrash: 0.002, load: load, patience: 100 * service}
}

// sizes of backends: what a limit is that was tuned to one of them shows on the
// others.
var sizes = []struct {
	workers int
	service time.Duration
}{{1, 10 * ms}, {2, 10 * ms}, {4, 2 * ms}, {8, 10 * ms}, {16, 10 * ms}, {64, 10 * ms}, {8, 100 * ms}, {64, 100 * ms}}

// each runs check for every size.
func each(t *testing.T, check func(t *testing.T, workers int, service time.Duration)) {
	t.Helper()
	for _, z := range sizes {
		t.Run(fmt.Sprintf("%dx%v", z.workers, z.service), func(t *testing.T) {
			t.Parallel()
			check(t, z.workers, z.service)
		})
	}
}

// In overload nearly all of what the backend can do is served in time, whatever
// its size, and whether the overload was there from the start.
func TestKneeOverload(t *testing.T) {
	each(t, func(t *testing.T, workers int, service time.Duration) {
		t.Helper()
		want := 0.93
		if workers == 1 {
			want = 0.88 // the best fixed limit has 0.955
		}
		for _, load := range []float64{2, 10} {
			w := base(workers, service, 0.7)
			w.arrivals = after(20*sec, 1.0, load/0.7)
			w.parts, w.until = []time.Duration{20 * sec, 25 * sec}, 55*sec
			if service > 50*ms {
				w.until = 105 * sec
			}
			capacity := float64(workers) / service.Seconds()
			got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[2].rate() / capacity })
			t.Logf("goodput at %vx: %.3f", load, got)
			if got < want {
				t.Errorf("goodput at %vx = %.3f of the capacity; want at least %v", load, got, want)
			}
		}
	})
}

// Below the capacity next to nothing is refused, once the limit has found its
// place, and little before.
func TestKneeRefusesNothingForNothing(t *testing.T) {
	each(t, func(t *testing.T, workers int, service time.Duration) {
		t.Helper()
		for load, most := range map[float64]float64{0.5: 0.001, 0.7: 0.001, 0.9: 0.006} {
			w := base(workers, service, load)
			w.thrash = 0
			w.parts, w.until = []time.Duration{20 * sec}, 80*sec
			const seeds = 6
			var cold, warm float64
			for seed := range uint64(seeds) {
				o := w.play(kneeLimit(knee.Options{}), seed+100)
				cold, warm = cold+o.parts[0].refusals()/seeds, warm+o.parts[1].refusals()/seeds
			}
			t.Logf("refused at %vx: %.3f %% in the first 20 s, %.3f %% after", load, 100*cold, 100*warm)
			if warm > most {
				t.Errorf("refused %.3f %% at %vx after 20 s; want at most %.2f %%", 100*warm, load, 100*most)
			}
			if cold > 0.07 {
				t.Errorf("refused %.3f %% at %vx in the first 20 s; want at most 7 %%", 100*cold, load)
			}
		}
	})
}

// A backend that becomes slower by itself, or by a longer way to it, is no
// queue: without drains the limit would refuse a third for ever after 40 ms.
func TestKneeFollowsTheBaseline(t *testing.T) {
	for delay, most := range map[time.Duration][2]float64{5 * ms: {0.001, 0.001}, 40 * ms: {0.02, 0.001}, 200 * ms: {0.12, 0.005}} {
		w := base(8, 10*ms, 0.7)
		w.delay = func(at time.Duration) time.Duration {
			if at >= 20*sec && at < 80*sec {
				return delay
			}
			return 0
		}
		w.objective = sec
		w.parts, w.until = []time.Duration{20 * sec, 40 * sec, 80 * sec}, 100*sec
		for part, most := range map[int]float64{1: most[0], 2: most[1], 3: 0.005} {
			got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[part].refusals() })
			if got > most {
				t.Errorf("+%v: refused %.3f %% in part %d; want at most %.2f %%", delay, 100*got, part, 100*most)
			}
		}
	}
}

// A backend at a fraction of itself keeps most of what it can do, and is back
// when it is.
func TestKneeBrownOut(t *testing.T) {
	for factor, want := range map[float64]float64{2.5: 0.89, 5: 0.68, -5: 0.68} {
		w := base(8, 10*ms, 0.8)
		w.queue, factor = factor < 0, math.Abs(factor) // with a queue before it, or without
		w.slow = func(at time.Duration) float64 {
			if at >= 20*sec && at < 40*sec {
				return factor
			}
			return 1
		}
		w.parts, w.until = []time.Duration{20 * sec, 22 * sec, 40 * sec, 41 * sec}, 50*sec
		got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[2].rate() / capacity })
		if got < want/factor {
			t.Errorf("/%v: goodput %.3f of the capacity; want at least %.3f", factor, got, want/factor)
		}
		if got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[4].refusals() }); got > 0.02 {
			t.Errorf("/%v: refused %.2f %% a second after it was over; want at most 2 %%", factor, 100*got)
		}
	}
}

// Twice the workers are put to use within seconds.
func TestKneeScaleOut(t *testing.T) {
	w := base(8, 10*ms, 2)
	w.scale = after(20*sec, 8, 16)
	w.parts, w.until = []time.Duration{20 * sec, 23 * sec}, 40*sec
	if got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[2].rate() / capacity }); got < 1.8 {
		t.Errorf("goodput %.3f of the old capacity 3 s after it doubled; want at least 1.8", got)
	}
}

// Eight gates that know of each other serve what one would, with a queue before
// the limit or without. With it one of them, whose requests all fitted into its
// queue, refused nothing, took what it saw of the others' queue for the baseline,
// and left them next to nothing.
func TestKneeGates(t *testing.T) {
	for name, load := range map[string]float64{"warm": 0.7, "cold": 2, "warm, queue": 0.7, "cold, queue": 2} {
		w := base(8, 10*ms, load)
		w.gates, w.queue = 8, strings.Contains(name, "queue")
		w.arrivals = after(20*sec, 1.0, 2/load)
		w.parts, w.until = []time.Duration{22 * sec}, 50*sec
		if got := mean(w, kneeLimit(knee.Options{Gates: 8}), func(o outcome) float64 { return o.parts[1].rate() / capacity }); got < 0.93 {
			t.Errorf("%s: goodput %.3f of the capacity with eight gates at 2x; want at least 0.93", name, got)
		}
	}
}

// Two gates that know nothing of each other, as a pair for safety, drain at the
// same moments. Each at its own, one of them took the other's queue for a slower
// backend: half of the capacity was left in some runs. It
// still happens, more rarely: not every seed keeps this bound.
func TestKneeTwoGatesUntold(t *testing.T) {
	for name, load := range map[string]float64{"warm": 0.7, "cold": 2} {
		w := base(8, 10*ms, load)
		w.gates, w.queue = 2, true
		w.arrivals = after(20*sec, 1.0, 2/load)
		w.parts, w.until = []time.Duration{40 * sec}, 80*sec
		for seed := range uint64(6) {
			got := w.play(kneeLimit(knee.Options{}), seed+100).parts[1].rate() / capacity
			t.Logf("%s, seed %d: %.3f", name, seed, got)
			if got < 0.85 {
				t.Errorf("%s: goodput %.3f of the capacity with two gates at 2x; want at least 0.85", name, got)
			}
		}
	}
}

// Eight gates that are told of others, and not of how many, keep most of the
// capacity. Without that their queues together are what each of them takes for the
// backend, and they keep an eighth of it warm, and nothing from a cold start.
func TestKneeEightGatesUncounted(t *testing.T) {
	for name, load := range map[string]float64{"warm": 0.7, "cold": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := base(8, 10*ms, load)
			w.gates, w.queue = 8, true
			w.arrivals = after(20*sec, 1.0, 2/load)
			w.parts, w.until = []time.Duration{40 * sec}, 80*sec
			got := mean(w, kneeLimit(knee.Options{Others: true}), func(o outcome) float64 { return o.parts[1].rate() / capacity })
			t.Logf("goodput %.3f of the capacity", got)
			if got < 0.85 {
				t.Errorf("goodput %.3f of the capacity with eight gates at 2x; want at least 0.85", got)
			}
		})
	}
}

// Callers that give up leave their work behind in the backend, and a limit that
// does not keep what it admits inside their patience serves nobody: fixed and
// gradient2 were at nothing for ever. Their departures tell what it is.
func TestKneeLearnsPatience(t *testing.T) {
	for _, patience := range []time.Duration{50 * ms, 100 * ms, 200 * ms, 500 * ms, sec} {
		w := base(8, 10*ms, 0.8)
		w.patience, w.objective = patience, patience
		w.slow = func(at time.Duration) float64 {
			if at >= 20*sec && at < 40*sec {
				return 5
			}
			return 1
		}
		w.parts, w.until = []time.Duration{20 * sec, 40 * sec, 42 * sec}, 60*sec
		got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[3].goodput() })
		if got < 0.97 {
			t.Errorf("callers that leave after %v: %.3f served 2 s after a brown-out; want at least 0.97", patience, got)
		}
	}
}

// told remembers why a limit changed.
type told struct {
	*knee.Limit
	why map[string]bool
}

func (l told) Observe(now int64, latency time.Duration, inFlight int, dropped bool) {
	l.Limit.Observe(now, latency, inFlight, dropped)
	l.why[l.Why()] = true
}

// The word for a limit that comes down for its callers' patience was never said.
func TestKneeSaysDepartures(t *testing.T) {
	w := base(8, 10*ms, 2)
	w.patience, w.until = 50*ms, 20*sec
	why := map[string]bool{}
	w.play(func() algorithms.Limit { return told{knee.New(knee.Options{}), why} }, 1)
	if !why[parts.WhyDepartures] {
		t.Errorf("why = %v; want departures among them", why)
	}
}

// One client in ten that leaves after less than a service must not shut the
// partition for the others.
func TestKneeAndTheHurried(t *testing.T) {
	w := base(8, 10*ms, 0.9)
	w.thrash, w.hurried, w.hurry = 0, 0.1, 5*ms
	w.parts, w.until = []time.Duration{20 * sec}, 60*sec
	if got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[1].refusals() }); got > 0.01 {
		t.Errorf("refused %.2f %% at 0.9x with hurried callers; want at most 1 %%", 100*got)
	}
	// Nor one that lies: leaves as soon as it can teach something.
	w.hurry = 15 * ms
	if got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[1].refusals() }); got > 0.3 {
		t.Errorf("refused %.2f %% at 0.9x with a liar; want the limit to keep the backend busy", 100*got)
	}
	w.load = 2
	if got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[1].rate() / capacity }); got < 0.6 {
		t.Errorf("goodput %.3f of the capacity at 2x with a liar; want most of it", got)
	}
}

// Bursts are no overload: the limit stays up between them.
func TestKneeBursts(t *testing.T) {
	w := base(8, 10*ms, 0.5)
	w.batch = 5
	w.parts, w.until = []time.Duration{20 * sec}, 80*sec
	got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[1].refusals() })
	if got > 0.01 {
		t.Errorf("refused %.2f %% of batches of 5 at half the capacity; want at most 1 %%", 100*got)
	}
}

// A baseline that was learned while a queue stood from the first moment on, without a
// refusal, is told by a drain: the limit does not stay where the queue fits it for ever.
func TestKneeStandingQueue(t *testing.T) {
	k := knee.New(knee.Options{})
	const rate, callers = 5, 33 // answers per second whatever is in flight; nobody is refused
	now, inside := int64(0), 0
	for now < int64(10*time.Minute) {
		inside = min(callers, k.Current())
		now += int64(time.Second) / rate
		k.Observe(now, time.Duration(inside)*time.Second/rate, inside, false)
	}
	if base := k.BaseRTT(); base > time.Second {
		t.Errorf("limit %d, baseline %v: it is the latency of a queue of %d", k.Current(), base, inside)
	}
}

// Batches leave permits idle in between: the limit does not follow what is at work on
// average down to where most of them are refused.
func TestKneeBatches(t *testing.T) {
	w := base(100, 30*ms, 0.7)
	w.thrash, w.batch, w.queue = 0, 50, true
	w.parts, w.until = []time.Duration{20 * sec}, 80*sec
	got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[1].refusals() })
	if got > 0.2 {
		t.Errorf("refused %.1f %% of batches of 50 before 100 workers at 0.7x; want at most 20 %%", 100*got)
	}
}

// A way that has become ten times as long takes many times the permits, and they are
// found in seconds: from each that is refused the limit sees that nothing waits.
func TestKneeFollowsALongWay(t *testing.T) {
	w := base(64, 40*ms, 0.7)
	w.patience = 10 * sec
	w.delay = func(at time.Duration) time.Duration {
		if at >= 20*sec {
			return 500 * ms
		}
		return 0
	}
	w.parts, w.until = []time.Duration{20 * sec, 40 * sec}, 80*sec
	got := mean(w, kneeLimit(knee.Options{}), func(o outcome) float64 { return o.parts[2].refusals() })
	if got > 0.1 {
		t.Errorf("+500 ms: refused %.1f %% from 20 s on; want at most 10 %%", 100*got)
	}
}

// Gates that are told of each other follow a longer way to the backend, too, and
// do not drain for ever once they have.
func TestKneeGatesFollowTheBaseline(t *testing.T) {
	w := base(8, 10*ms, 0.7)
	w.gates, w.queue = 8, true
	w.delay = func(at time.Duration) time.Duration {
		if at >= 20*sec {
			return 40 * ms
		}
		return 0
	}
	w.parts, w.until = []time.Duration{40 * sec}, 80*sec
	if got := mean(w, kneeLimit(knee.Options{Gates: 8}), func(o outcome) float64 { return o.parts[1].refusals() }); got > 0.03 {
		t.Errorf("refused %.2f %% at 0.7x after the first 20 s of +40 ms; want at most 3 %%", 100*got)
	}
}
