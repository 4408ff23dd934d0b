package algorithms_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/algorithms/knee"
)

// configured are the algorithms with their defaults, and knee with what is said of
// other gates.
func configured(tb testing.TB) map[string]func() algorithms.Limit {
	tb.Helper()
	list := map[string]func() algorithms.Limit{
		"knee, four gates": func() algorithms.Limit { return knee.New(knee.Options{Gates: 4}) },
		"knee, others":     func() algorithms.Limit { return knee.New(knee.Options{Others: true}) },
	}
	for _, kind := range kinds {
		list[kind] = func() algorithms.Limit { return newLimit(tb, kind) }
	}
	return list
}

// ordinary feeds a limit two minutes of eight callers at a time before a backend that
// serves each in 10 ms, and returns what it has come to.
func ordinary(lim algorithms.Limit, r *rand.Rand, now *int64, offered, refused *uint64) int {
	for end := *now + int64(2*time.Minute); *now < end; {
		n := min(lim.Current(), 8)
		*now += int64(r.ExpFloat64() * float64(10*time.Millisecond) / float64(n))
		*offered++
		if n < 8 {
			*offered, *refused = *offered+1, *refused+1
		}
		lim.Observe(*now, 10*time.Millisecond, n, false)
	}
	return lim.Current()
}

// Whatever latencies come after whatever silence, the state of a limit is finite and
// its limit within bounds, and two minutes of ordinary work afterwards find one that
// lets it pass. Decays over a night without a request once made 0 × ∞, which is not a
// number and never becomes one again.
func TestLimitsAfterSilence(t *testing.T) {
	silences := []time.Duration{1, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, 12 * time.Hour, 25 * time.Hour, 40 * 24 * time.Hour}
	latencies := []time.Duration{1, 500, time.Microsecond, time.Millisecond, time.Second, time.Minute}
	for name, fresh := range configured(t) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 5))
			lim := fresh()
			now, offered, refused := int64(1), uint64(0), uint64(0)
			if w, ok := lim.(interface {
				Watch(demand func() (offered, refused uint64))
			}); ok && seed%3 > 0 {
				w.Watch(func() (uint64, uint64) { return offered, refused })
			}
			departures := seed%2 == 0 // whoever is taken for impatient is so for minutes
			for range 1 + r.IntN(12) {
				now += int64(silences[r.IntN(len(silences))])
				latency, every := latencies[r.IntN(len(latencies))], int64(silences[r.IntN(5)])
				held, dropped, overload := 1<<r.IntN(14), r.IntN(8) == 0, r.IntN(4) == 0
				for range 1 << r.IntN(10) {
					now += every
					offered++
					if overload {
						offered, refused = offered+3, refused+3
					}
					if l, ok := lim.(interface {
						Left(now int64, age time.Duration, inFlight int)
					}); ok && departures {
						l.Left(now, latency, held)
					}
					lim.Observe(now, latency, held, dropped)
				}
				for key, v := range lim.State() {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("%s, seed %d: %s is %v", name, seed, key, v)
					}
				}
				if n := lim.Current(); n < 1 || n > 1_000_000 {
					t.Fatalf("%s, seed %d: limit %d", name, seed, n)
				}
			}
			if n := ordinary(lim, r, &now, &offered, &refused); n < 8 && !departures {
				t.Errorf("%s, seed %d: limit %d after two minutes of eight callers ", name, seed, n)
			}
		}
	}
}
