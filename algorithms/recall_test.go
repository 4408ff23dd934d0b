package algorithms_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/algorithms/knee"
)

// recalled plays a world with a limit that is told a baseline first, and returns
// what it believes in the end.
func recalled(w world, told time.Duration) (believed time.Duration, goodput float64) {
	const seeds = 5
	for seed := range uint64(seeds) {
		var k *knee.Limit
		o := w.play(func() algorithms.Limit {
			k = knee.New(knee.Options{})
			k.Recall(told)
			return k
		}, seed+7)
		believed += k.BaseRTT() / seeds
		goodput += o.parts[len(o.parts)-1].rate() / (float64(w.workers) / w.service.Seconds()) / seeds
	}
	return believed, goodput
}

// A restart under overload takes the latency of the queue for the one without load at
// first: with what was learned before it does not, from the first moment on. Within
// seconds a drain tells it in any case.
func TestKneeRecalls(t *testing.T) {
	w := base(4, 20*ms, 1.3)
	for until, least := range map[time.Duration]float64{500 * ms: 0, 15 * sec: 0.9} {
		w.until = until
		blank, without := recalled(w, 0)
		told, goodput := recalled(w, 20*ms)
		t.Logf("after %v: told nothing %v, goodput %.2f; told 20 ms %v, goodput %.2f", until, blank, without, told, goodput)
		if told > 25*ms || told < 15*ms || goodput < least {
			t.Errorf("after %v: told 20 ms, it believes in %v and has a goodput of %.2f; want about that, and at least %v", until, told, goodput, least)
		}
		if until < sec && blank < 30*ms {
			t.Errorf("after %v: told nothing, it believes in %v: the overload of this test teaches nothing wrong", until, blank)
		}
		if until > sec && (blank > 30*ms || without < least) {
			t.Errorf("after %v: told nothing, it believes in %v and has a goodput of %.2f; want less than 30 ms, and at least %v", until, blank, without, least)
		}
	}
}

// What was learned before is no dogma: of a backend that has become slower, or
// faster, the new latency is learned, under load and in overload.
func TestKneeUnlearnsWhatItRecalls(t *testing.T) {
	for _, load := range []float64{0.5, 3} {
		for _, told := range []time.Duration{5 * ms, 80 * ms} {
			w := base(4, 20*ms, load)
			w.until = 60 * sec
			got, goodput := recalled(w, told)
			t.Logf("load %v, told %v: %v, goodput %.2f", load, told, got, goodput)
			high := 32 * ms
			if load > 1 { // it comes down once the overload ends, and costs next to nothing until then
				high = 60 * ms
			}
			if got < 12*ms || got > high || goodput < 0.9*min(load, 1) {
				t.Errorf("load %v, told %v: believes in %v after a minute, goodput %.2f; want about 20 ms", load, told, got, goodput)
			}
		}
	}
}
