package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/limiter"
)

// skewed gives the first gate six tenths of the load.
func (w *world) skewed(load float64) {
	for i, g := range w.gates {
		g.load = 0.4 * load / float64(len(w.gates)-1)
		if i == 0 {
			g.load = 0.6 * load
		}
	}
}

// percent plays for a time after settling for five seconds, and returns the
// seconds in percent of the rate, and of the load the percentage refused.
func (w *world) percent(d time.Duration) (seconds []float64, refused float64) {
	w.t.Helper()
	w.run(5 * time.Second)
	for _, g := range w.gates {
		g.offered, g.admitted = 0, 0
	}
	seconds = w.run(d)
	for i := range seconds {
		seconds[i] *= 100 / w.rate.PerSecond
	}
	var offered, admitted float64
	for _, g := range w.gates {
		offered, admitted = offered+g.offered, admitted+g.admitted
	}
	return seconds, 100 * (1 - admitted/offered)
}

// Whoever asks for more than there is gets the rate, over all gates, whatever the
// load is split like; whoever asks for less is not refused.
func TestGatesShareARate(t *testing.T) {
	for name, tc := range map[string]struct {
		rate, load  float64
		gates       int
		skewed      bool
		mean        [2]float64 // percent of the rate
		most        float64    // in the worst second
		mostRefused float64    // percent of the load
	}{
		"5000/s, asked for twice, evenly":        {rate: 5000, load: 2, gates: 8, mean: [2]float64{99, 101}, most: 102, mostRefused: 51},
		"5000/s, asked for twice, 60 % at one":   {rate: 5000, load: 2, gates: 8, skewed: true, mean: [2]float64{99, 101}, most: 105, mostRefused: 51},
		"5000/s, asked for less":                 {rate: 5000, load: 0.9, gates: 8, mean: [2]float64{88, 92}, most: 95, mostRefused: 0.05},
		"500/s, asked for twice, 60 % at one":    {rate: 500, load: 2, gates: 8, skewed: true, mean: [2]float64{98, 101}, most: 110, mostRefused: 53},
		"500/s, asked for less, 60 % at one":     {rate: 500, load: 0.7, gates: 8, skewed: true, mean: [2]float64{66, 74}, most: 90, mostRefused: 0.1},
		"50/s, asked for twice, in whole pieces": {rate: 50, load: 2, gates: 8, mean: [2]float64{97, 102}, most: 125, mostRefused: 55},
		"50/s, asked for less":                   {rate: 50, load: 0.7, gates: 8, mean: [2]float64{64, 76}, most: 110, mostRefused: 1},
		"5/s, of which no gate's share is whole": {rate: 5, load: 2, gates: 8, mean: [2]float64{94, 104}, most: 200, mostRefused: 60},
		"100/s over two gates":                   {rate: 100, load: 2, gates: 2, mean: [2]float64{98, 102}, most: 110, mostRefused: 54},
		"100/s at the only gate":                 {rate: 100, load: 2, gates: 1, mean: [2]float64{98, 102}, most: 110, mostRefused: 54},
	} {
		if testing.Short() && tc.rate > 500 {
			continue // a world takes long with the race detector
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, limiter.Rate{PerSecond: tc.rate}, tc.gates)
			w.spread(tc.rate * tc.load)
			if tc.skewed {
				w.skewed(tc.rate * tc.load)
			}
			seconds, refused := w.percent(20 * time.Second)
			mean, least, most := summary(seconds)
			t.Logf("mean %.2f %%, seconds %.1f to %.1f %%, refused %.2f %%", mean, least, most, refused)
			if mean < tc.mean[0] || mean > tc.mean[1] || most > tc.most || refused > tc.mostRefused {
				t.Errorf("mean %.2f %%, worst second %.1f %%, refused %.2f %%; want a mean of %v, at most %v and %v",
					mean, most, refused, tc.mean, tc.most, tc.mostRefused)
			}
		})
	}
}

// The load moves from one gate to another: the share follows within a second or
// so, and nothing is minted on the way.
func TestShareFollowsTheLoad(t *testing.T) {
	w := newWorld(t, 2, limiter.Rate{PerSecond: 5000}, 8)
	w.skewed(10000)
	w.percent(5 * time.Second)
	w.gates[0].load, w.gates[7].load = w.gates[7].load, w.gates[0].load
	seconds, _ := w.run(6*time.Second), 0
	for i, s := range seconds {
		if pc := s / 50; pc > 105 || i >= 2 && pc < 95 {
			t.Errorf("second %d after the change: %.1f %%; want at most 105, and from the second on at least 95", i+1, pc)
		}
	}
}

// Dear requests are not starved by cheap ones: a share that flows never gathers
// what they cost, so that whole pieces are saved for them.
func TestDearRequestsAreSavedFor(t *testing.T) {
	w := newWorld(t, 3, limiter.Rate{PerSecond: 100, BurstSeconds: 2}, 4)
	w.spread(160)
	w.gates[0].load, w.gates[0].cost = 1, 50
	w.percent(20 * time.Second)
	if got := w.gates[0].admitted; got < 200 {
		t.Errorf("the gate with requests of 50 tokens was admitted %v tokens in 20 s of 100/s; want at least 200", got)
	}
}

// A quota that everybody left alone has filled up, and is not taken for lost: a
// tenant may come back with a burst.
func TestIdleQuotaKeepsItsBurst(t *testing.T) {
	w := newWorld(t, 4, limiter.Rate{PerSecond: 100}, 2)
	w.spread(20)
	w.run(5 * time.Second)
	w.spread(0)
	w.run(15 * time.Second)
	w.gates[0].offered, w.gates[0].admitted = 0, 0
	w.gates[0].load = 200 // for half a second: the burst
	w.run(500 * time.Millisecond)
	g := w.gates[0]
	if refused := 1 - g.admitted/g.offered; refused > 0.05 {
		t.Errorf("%.0f of %.0f requests of a burst after silence were admitted; want 95 %%", g.admitted, g.offered)
	}
}

// The rate in force is the newest one: gates with an older configuration do not
// bring it back, and learn of it.
func TestNewestRateWins(t *testing.T) {
	w := newWorld(t, 5, limiter.Rate{PerSecond: 1000}, 4)
	w.spread(4000)
	w.run(3 * time.Second)
	faster := limiter.Rate{PerSecond: 2000, Sharers: 4}
	w.gates[0].bucket.SetRate(faster, w.now)
	w.gates[0].Tell(w.now, false, fleet.Setting{Name: "orders", PerSecond: 2000, Burst: 2000})
	w.run(2 * time.Second)
	mean, _, _ := summary(w.run(5 * time.Second))
	if mean < 1900 || mean > 2100 {
		t.Errorf("after one gate learned of 2000/s, the others of 1000/s, %.0f/s are admitted; want 2000", mean)
	}
}

// A gate that joins or leaves is no loss: what it has not spent comes back.
func TestGatesComeAndGo(t *testing.T) {
	w := newWorld(t, 6, limiter.Rate{PerSecond: 2000}, 4)
	w.spread(4000)
	w.run(4 * time.Second)
	w.join()
	w.spread(4000)
	for i, s := range w.run(4 * time.Second) {
		if pc := s / 20; pc > 106 || pc < 92 {
			t.Errorf("second %d after a gate joined: %.1f %%", i+1, pc)
		}
	}
	leaver := w.gates[0]
	if err := leaver.Leave(w.now); err != nil {
		t.Fatal(err)
	}
	leaver.dead = true
	for i, s := range w.run(4 * time.Second) {
		if pc := s / 20; pc > 104 || i > 0 && pc < 96 {
			t.Errorf("second %d after a gate left: %.1f %%", i+1, pc)
		}
	}
	if _, _, _, n := w.gates[1].Quota("orders"); n != 4 {
		t.Errorf("%d gates use the quota after one of 5 left; want 4", n)
	}
}

// Whatever happens, in whatever order, to gates, network and clocks: no span is
// granted more than the rate, what was in stock, and the grants that were open.
func TestNeverMoreThanRateAndOpenGrants(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 1 // a world takes seconds with the race detector
	}
	for seed := range seeds {
		w := newWorld(t, seed, limiter.Rate{PerSecond: 1000}, 4)
		w.opts.Fallback, w.opts.Lease = fleet.Closed, time.Second
		for _, g := range w.gates {
			g.Set(w.opts)
		}
		w.spread(5000)
		var total float64
		joins := 0
		dice := rand.New(rand.NewPCG(seed, 7))
		for turn := 1; turn <= 40; turn++ {
			w.upset(dice, &joins)
			for _, s := range w.run(time.Second) {
				total += s
			}
			// What flowed in, one burst in stock at the beginning, what may be
			// owed, and what gates hold that begin.
			most := 1000*float64(turn) + 1000 + 1.5*1000*0.2 + 60*float64(joins+4)
			if total > most {
				t.Fatalf("seed %d: %.0f tokens were spent in %d s, %d gates having joined; want at most %.0f", seed, total, turn, joins, most)
			}
		}
		t.Logf("seed %d: %.0f tokens in 40 s of 1000/s", seed, total)
	}
}

// upset has something happen.
func (w *world) upset(dice *rand.Rand, joins *int) {
	g := w.gates[dice.IntN(len(w.gates))]
	switch dice.IntN(9) {
	case 0:
		g.cut = !g.cut
	case 1:
		g.deaf = !g.deaf
	case 2:
		w.silent = !w.silent
	case 3:
		w.redis.FlushAll()
	case 4:
		g.dead = true // as by kill -9, and another comes for it
		*joins++
		w.join().load = g.load
	case 5:
		w.skew += time.Duration(dice.IntN(3)-1) * time.Hour
	case 6:
		g.clock += int64(dice.IntN(int(2 * time.Second))) // a jump forwards, as after a pause
	default:
		w.silent, g.cut, g.deaf = false, false, false
	}
}

// A gate that is cut off goes on at its share until its lease ends, and the group
// presumes so: without that the others would be lent its part too, an eighth more
// than there is.
func TestCutOffGateIsPresumedToSpend(t *testing.T) {
	w := newWorld(t, 8, limiter.Rate{PerSecond: 5000}, 8)
	w.opts.Fallback = fleet.Closed
	for _, g := range w.gates {
		g.Set(w.opts)
	}
	w.spread(10000)
	w.run(5 * time.Second)
	w.gates[0].cut = true
	for i, s := range w.run(8 * time.Second) {
		if pc := s / 50; pc > 102 || pc < 85 || i > 5 && pc < 98 {
			t.Errorf("second %d after a gate was cut off: %.1f %%; want at most 102, and all of it once its lease is over", i+1, pc)
		}
	}
	w.gates[0].cut = false
	for i, s := range w.run(3 * time.Second) {
		if pc := s / 50; pc > 104 || i > 1 && pc < 95 {
			t.Errorf("second %d after it came back: %.1f %%", i+1, pc)
		}
	}
}

// When Redis comes back after an outage nobody knows what was spent meanwhile, and
// nothing is minted: a full bucket would be a second of nearly twice the rate.
func TestOutageMintsNothing(t *testing.T) {
	for name, lost := range map[string]bool{"with its state": false, "empty": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9, limiter.Rate{PerSecond: 5000}, 8)
			w.spread(10000)
			w.run(5 * time.Second)
			w.silent = true
			for i, s := range w.run(6 * time.Second) {
				if pc := s / 50; pc > 102 || pc < 94 {
					t.Errorf("second %d without Redis: %.1f %%; want about 100", i+1, pc)
				}
			}
			w.silent = false
			if lost {
				w.redis.FlushAll()
			}
			for i, s := range w.run(4 * time.Second) {
				if pc := s / 50; pc > 103 || pc < 80 {
					t.Errorf("second %d after Redis came back: %.1f %%; want about 100", i+1, pc)
				}
			}
		})
	}
}

// A call that always fails, for what lies under a key of one of its quotas, left
// all that came with it and after it without tokens for good, while others were
// answered: the gate took the group for present, and went by no fallback.
func TestQuotasThatAreNeverAnsweredGoOn(t *testing.T) {
	r := miniredis.RunT(t)
	if err := r.Set("admitd:{sim}:r:poisoned", "no hash"); err != nil {
		t.Fatal(err)
	}
	now, rate := int64(time.Hour), limiter.Rate{PerSecond: 1000, Sharers: 1}
	names := []string{}
	for i := range 32 {
		names = append(names, fmt.Sprint("other", i))
	}
	names = append(names, "poisoned", "orders")
	buckets := map[string]*limiter.Bucket{}
	for _, name := range names {
		buckets[name] = limiter.NewBucket(rate, now)
	}
	sim, err := fleet.NewSim(now, "gate", fleet.Settings{}, func(yield func(string, string, *limiter.Bucket) bool) {
		for _, name := range names {
			yield(name, name, buckets[name])
		}
	}, &fleet.Redis{Addresses: []string{r.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	admitted := map[string]int{}
	for range 1000 { // five seconds
		now += int64(tick)
		r.SetTime(time.Unix(1_800_000_000, now))
		for _, name := range names {
			for range 4 {
				if _, ok := buckets[name].Take(now, 1); ok {
					admitted[name]++
				}
			}
		}
		sim.Step(now, true, true)
	}
	if sim.Mode(now) != fleet.Partly || sim.Failed != 0 || admitted["other0"] < 3500 {
		t.Fatalf("mode %s, %d calls failed, %d of the others admitted; want the others to be answered", sim.Mode(now), sim.Failed, admitted["other0"])
	}
	if n := admitted["orders"]; n < 3000 {
		t.Errorf("%d of 4000 admitted beside a quota that cannot be asked for; want nearly all", n)
	}
}

// Gates that alone lose Redis go on at their part of the rate, which the others
// leave to them: as long as `gates` says that they exist, and else for a minute.
func TestPartsOfSilentGatesAreKeptBack(t *testing.T) {
	for name, tc := range map[string]struct {
		gates    int
		fallback fleet.Fallback
		least    float64 // percent of the rate
	}{
		"that are configured":         {gates: 4, fallback: fleet.Fair, least: 95},
		"that were seen":              {gates: 0, fallback: fleet.Fair, least: 95},
		"that admit nothing":          {gates: 4, fallback: fleet.Closed, least: 95},
		"fewer than there are, share": {gates: 2, fallback: fleet.Share, least: 95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 14, limiter.Rate{PerSecond: 600}, 4)
			w.opts.Gates, w.opts.Fallback = tc.gates, tc.fallback
			for _, g := range w.gates {
				g.Set(w.opts)
			}
			w.spread(2400)
			w.run(5 * time.Second)
			w.gates[0].cut, w.gates[1].cut = true, true
			for i, s := range w.run(14 * time.Second) {
				if pc := s / 6; pc > 104 || i >= 5 && pc < tc.least {
					t.Errorf("second %d after two of four gates were cut off: %.1f %%; want at most 104, and from the sixth on at least %g", i+1, pc, tc.least)
				}
			}
			w.gates[0].cut, w.gates[1].cut = false, false
			for i, s := range w.run(4 * time.Second) {
				if pc := s / 6; pc > 106 || i >= 2 && pc < 95 {
					t.Errorf("second %d after they came back: %.1f %%", i+1, pc)
				}
			}
		})
	}
}

// A gate that was killed, and is not expected, has its part kept back for a minute.
func TestKilledGateIsForgotten(t *testing.T) {
	w := newWorld(t, 15, limiter.Rate{PerSecond: 100}, 2)
	w.opts.Gates = 1
	for _, g := range w.gates {
		g.Set(w.opts)
	}
	w.spread(400)
	w.run(5 * time.Second)
	w.gates[1].dead = true
	seconds := w.run(70 * time.Second)
	if mean, _, _ := summary(seconds[10:50]); mean > 55 || mean < 45 {
		t.Errorf("half a minute after one of two gates was killed %.0f/s are admitted; want 50", mean)
	}
	if mean, _, _ := summary(seconds[66:]); mean < 95 {
		t.Errorf("a minute later %.0f/s are admitted; want 100", mean)
	}
}

// Gates of one group may have different leases and intervals, as while a new
// configuration is rolled out: each sees the other.
func TestMixedLeases(t *testing.T) {
	w := newWorld(t, 16, limiter.Rate{PerSecond: 500}, 2)
	w.gates[1].Set(fleet.Settings{Gates: 2, Lease: time.Minute, Interval: time.Second})
	w.spread(1000)
	w.run(5 * time.Second)
	for i, g := range w.gates {
		if _, _, _, n := g.Quota("orders"); n != 2 {
			t.Errorf("gate %d sees %d gates use the quota; want 2", i, n)
		}
	}
	if mean, _, most := summary(w.run(10 * time.Second)); mean < 490 || mean > 505 || most > 560 {
		t.Errorf("%.0f/s are admitted, %.0f in the worst second; want 500, and one of 1 s of interval in it no more than 560", mean, most)
	}
}

// Quotas that nobody asks for cost nothing: neither are their buckets listed, nor
// are they looked at each time, nor asked for. Who comes back has tokens in hand, and
// is leased more before these are spent.
func TestIdleQuotasAreLeftAlone(t *testing.T) {
	r := miniredis.RunT(t)
	now, sharing := int64(time.Hour), &limiter.Sharing{}
	buckets := make([]*limiter.Bucket, 2000)
	for i := range buckets {
		buckets[i] = limiter.NewBucket(limiter.Rate{PerSecond: 100, Sharers: 1, Sharing: sharing}, now)
	}
	yielded := 0
	sim, err := fleet.NewSim(now, "gate", fleet.Settings{}, func(yield func(string, string, *limiter.Bucket) bool) {
		for i, b := range buckets {
			yielded++
			if !yield(fmt.Sprint("orders/~tenant", i), "orders/default", b) {
				return
			}
		}
	}, &fleet.Redis{Addresses: []string{r.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	sim.Share(sharing)
	run := func(d time.Duration) {
		for end := now + int64(d); now < end; {
			now += int64(tick)
			r.SetTime(time.Unix(1_800_000_000, now))
			sim.Step(now, true, true)
		}
	}
	run(3 * time.Second)
	if active, idle := sim.Lists(); active != 0 || idle != len(buckets) {
		t.Fatalf("%d quotas are looked at every time, %d now and then; want none and %d", active, idle, len(buckets))
	}
	yielded, sim.Calls = 0, 0
	run(20 * time.Second)
	if yielded > len(buckets) || sim.Calls > 120 {
		t.Errorf("in 20 s %d buckets were listed and %d calls made; want each once and one call in each interval", yielded, sim.Calls)
	}
	for range 3 {
		buckets[7].Take(now, 1)
	}
	run(2 * time.Second)
	if buckets[7].Tokens(now) < 30 {
		t.Errorf("%v tokens are in hand after some were spent; want them leased again", buckets[7].Tokens(now))
	}
	for buckets[9].Tokens(now) >= 1 {
		buckets[9].Take(now, 1)
	}
	run(300 * time.Millisecond)
	if buckets[9].Tokens(now) < 1 {
		t.Error("a quota that ran dry has no tokens 300 ms later")
	}
	made := limiter.NewBucket(limiter.Rate{PerSecond: 100, Sharers: 1, Sharing: sharing}, now)
	buckets = append(buckets, made)
	run(500 * time.Millisecond)
	if _, _, m, _ := sim.Quota("orders/~tenant2000"); m != fleet.Leased {
		t.Errorf("a bucket that was made is %q; want it leased", m)
	}
}
