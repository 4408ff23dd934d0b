package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/limiter"
)

// setting is a shared rate of a configuration, with a burst of a second.
func setting(name string, perSecond float64) fleet.Setting {
	return fleet.Setting{Name: name, PerSecond: perSecond, Burst: perSecond}
}

// start starts a gate of that name, whose file has the rate.
func (w *world) start(name string, perSecond float64) *simGate {
	w.t.Helper()
	w.rate.PerSecond = perSecond
	g := w.join()
	g.Rename(name)
	return g
}

// inForce plays half a second, and returns the rate in force at every gate that
// lives; they must agree.
func (w *world) inForce() float64 {
	w.t.Helper()
	w.run(500 * time.Millisecond)
	rate := -1.0
	for i, g := range w.gates {
		if g.dead || g.cut {
			continue
		}
		got := g.InForce(w.now+g.clock, "orders")
		if granted, _ := g.Granted(w.now, "orders"); granted != got {
			w.t.Errorf("gate %d goes by %g, and is leased of %g", i, got, granted)
		}
		switch {
		case rate < 0:
			rate = got
		case got != rate:
			w.t.Errorf("gate %d goes by %g, others by %g", i, got, rate)
		}
	}
	return rate
}

// What is in force is what the group was told last. A gate tells it by starting
// with a file that says something else than before, by reading another one, or by
// being told; times of files and clocks of gates play no part.
func TestRatesAreInTheOrderOfTheGroup(t *testing.T) {
	read := func(g *simGate, w *world, perSecond float64) { g.Tell(w.now, true, setting("orders", perSecond)) }
	patch := func(g *simGate, w *world, perSecond float64) { g.Tell(w.now, false, setting("orders", perSecond)) }
	override := func(g *simGate, w *world, own, perSecond float64, d time.Duration) {
		o := setting("orders", perSecond)
		o.Override, o.For = true, d
		g.Tell(w.now, false, setting("orders", own), o)
	}
	restart := func(w *world, i int, perSecond float64) {
		w.gates[i].dead = true
		_ = w.gates[i].Leave(w.now)
		w.start(fmt.Sprint("host", i), perSecond)
		w.gates[i], w.gates = w.gates[len(w.gates)-1], w.gates[:len(w.gates)-1]
	}
	for name, steps := range map[string][]struct {
		do   func(w *world)
		want float64
	}{
		"a rollback by restarts": {
			{func(*world) {}, 2000},
			{func(w *world) { restart(w, 0, 200) }, 200},
			{func(w *world) { restart(w, 1, 200) }, 200},
			{func(w *world) { restart(w, 2, 200) }, 200},
			{func(w *world) { restart(w, 0, 2000) }, 2000},
		},
		"a restart with the same file leaves what was told meanwhile": {
			{func(w *world) { patch(w.gates[1], w, 100) }, 100},
			{func(w *world) { restart(w, 0, 2000) }, 100},
			{func(w *world) { restart(w, 1, 2000) }, 100},
			{func(w *world) { restart(w, 2, 300) }, 300},
			{func(w *world) { restart(w, 0, 300) }, 300},
		},
		"a file that differs in something else only": {
			{func(w *world) { patch(w.gates[1], w, 100) }, 100},
			{func(w *world) {
				restart(w, 0, 2000)
				w.gates[0].Restart(w.now, setting("orders", 2000), setting("other", 5))
			}, 100},
		},
		"an old gate that starts again and again does not bring its rate back": {
			{func(w *world) { restart(w, 0, 200) }, 200},
			{func(w *world) { restart(w, 2, 2000) }, 200},
			{func(w *world) { restart(w, 2, 2000) }, 200},
			{func(w *world) { patch(w.gates[1], w, 100) }, 100},
			{func(w *world) { restart(w, 2, 2000) }, 100},
		},
		"a clock that is ahead gives no gate the last word": {
			{func(w *world) { w.gates[0].clock = int64(time.Hour); w.run(time.Second); patch2(w, 0, 100) }, 100},
			{func(w *world) { patch(w.gates[1], w, 50) }, 50},
			{func(w *world) { read(w.gates[2], w, 700) }, 700},
		},
		"a file that is read anew": {
			{func(w *world) { read(w.gates[0], w, 500) }, 500},
			{func(w *world) { patch(w.gates[0], w, 100) }, 100},
			{func(w *world) { read(w.gates[0], w, 500) }, 500},
			{func(w *world) { read(w.gates[1], w, 500) }, 500},
		},
		"an override ends in the group, though its gate is gone": {
			{func(w *world) { override(w.gates[0], w, 2000, 5, 3*time.Second) }, 5},
			{func(w *world) { restart(w, 0, 2000) }, 5},
			{func(w *world) { patch(w.gates[1], w, 1000) }, 5}, // under it
			{func(w *world) { w.run(3 * time.Second) }, 1000},
			{func(w *world) { restart(w, 1, 1000) }, 1000},
			{func(w *world) { restart(w, 0, 2000) }, 1000},
			{func(w *world) { override(w.gates[2], w, 2000, 7, 0) }, 7},
			{func(w *world) { w.gates[2].Tell(w.now, false, setting("orders", 2000)) }, 1000},
		},
		"what the group has lost is told again": {
			{func(w *world) { patch(w.gates[1], w, 100) }, 100},
			{func(w *world) { w.redis.FlushAll() }, 100},
			{func(w *world) { w.redis.FlushAll(); restart(w, 0, 2000) }, 100},
			{func(w *world) { w.redis.Del("admitd:{sim}:state") }, 100},
			{func(w *world) { w.redis.HSet("admitd:{sim}:state", "version", "1") }, 100},
			{func(w *world) { w.redis.HSet("admitd:{sim}:rates", "s:orders", "garbage"); restart(w, 2, 2000) }, 2000},
		},
		"what is told while the group is away is told later": {
			{func(w *world) { w.gates[1].cut = true; patch(w.gates[1], w, 100) }, 2000},
			{func(w *world) { w.gates[1].cut = false }, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 10, limiter.Rate{PerSecond: 2000}, 0)
			w.opts.Gates = 3
			for i := range 3 {
				w.start(fmt.Sprint("host", i), 2000)
			}
			if got := w.inForce(); got != 2000 {
				t.Fatalf("%g/s is in force; want 2000", got)
			}
			for i, step := range steps {
				step.do(w)
				if got := w.inForce(); got != step.want {
					t.Errorf("after step %d %g/s is in force; want %g", i+1, got, step.want)
				}
			}
		})
	}
}

// patch2 tells a gate whose clock is not the world's.
func patch2(w *world, i int, perSecond float64) {
	g := w.gates[i]
	g.Tell(w.now+g.clock, false, setting("orders", perSecond))
}

// Where a gate's configuration is not what is in force it says so, with whose it
// is.
func TestRatesThatDifferAreTold(t *testing.T) {
	w := newWorld(t, 11, limiter.Rate{PerSecond: 2000}, 0)
	w.start("old", 2000)
	w.run(time.Second)
	w.start("new", 200)
	w.run(time.Second)
	differs := w.gates[0].Differs(w.now)
	if len(differs) != 1 || differs[0].Name != "orders" || differs[0].PerSecond != 200 || differs[0].OwnPerSecond != 2000 || differs[0].By != "new" || differs[0].Source != "file" {
		t.Errorf("the gate with the old file says %+v; want orders, 200 by the file of new, its own 2000", differs)
	}
	if differs := w.gates[1].Differs(w.now); len(differs) != 0 {
		t.Errorf("the gate with the new file says %+v; want nothing", differs)
	}
}

// A quota of less than a token a minute, that was spent, is raised: who waits for
// it asks at once, at the gate that was told and at the others.
func TestRaiseWakesWhoWaits(t *testing.T) {
	w := newWorld(t, 12, limiter.Rate{PerSecond: 0.01}, 2)
	w.spread(40)
	w.run(5 * time.Second)
	waits := func(g *simGate) time.Duration { _, d := g.Granted(w.now, "orders"); return d }
	for i := 0; i < 1000 && (waits(w.gates[0]) < 1200*time.Millisecond || waits(w.gates[1]) < 1200*time.Millisecond); i++ {
		w.run(tick)
	}
	if waits(w.gates[0]) < time.Second || waits(w.gates[1]) < time.Second {
		t.Fatalf("the gates wait %v and %v; want more than a second", waits(w.gates[0]), waits(w.gates[1]))
	}
	w.gates[0].Tell(w.now, false, setting("orders", 100))
	w.run(500 * time.Millisecond)
	for i, g := range w.gates {
		g.admitted = 0
		w.run(500 * time.Millisecond)
		if g.admitted < 5 {
			t.Errorf("gate %d admitted %g in half a second after the rate was raised to 100/s; want about 10", i, g.admitted)
		}
	}
}

// A wait that the group tells is bounded, whatever it says.
func TestWaitIsBounded(t *testing.T) {
	w := newWorld(t, 13, limiter.Rate{PerSecond: 0.001}, 1)
	w.spread(20)
	w.run(3 * time.Second)
	before := w.gates[0].Calls
	w.redis.Del("admitd:{sim}:r:orders")
	w.redis.HSet("admitd:{sim}:r:orders", "q", fmt.Sprintf("1 5 %d 1000 1000 0 0 0 0 0 0 0", w.wall.UnixMicro()))
	w.gates[0].admitted = 0
	w.run(4 * time.Second)
	if g := w.gates[0]; g.admitted == 0 {
		t.Errorf("nothing is admitted 4 s after the group has tokens again, %d calls", g.Calls-before)
	}
}
