package knee

import (
	"math"
	"testing"
	"time"
)

const ms = float64(time.Millisecond)

// near reports whether two values agree to a thousandth.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Max(math.Abs(a), math.Abs(b)) }

// busy returns a state that serves workers of 10 ms and refuses a share of the
// demand.
func busy(workers, refused float64) state {
	s := newState(Options{}.WithDefaults())
	s.base.mean, s.flow.rate, s.refused = 10*ms, workers/(10*ms), refused
	return s
}

// The queue that a refused share asks for, by hand: 3 / -ln(1-P) + 0.07 of what is
// at work, and no more than 40 or three roots of what is at work. Of several gates
// each has its part of the queue that one would have.
func TestQueueFollowsTheRefusedShare(t *testing.T) {
	for _, c := range []struct {
		workers, refused float64
		o                Options
		want             float64
	}{
		{8, 0, Options{}, 40},
		{400, 0, Options{}, 60},               // three roots of 400
		{8, 0.5, Options{}, 3/math.Ln2 + .56}, // twice the capacity
		{8, 0.01, Options{}, 40},
		{8, 0.9, Options{}, 3/math.Log(5) + .56}, // as at 0.8: a queue does not shrink for ever
		{1, 0.5, Options{Gates: 8}, (3/math.Ln2 + .56) / 8},
		{8, 0, Options{Objective: 60 * time.Millisecond}, 16}, // 800 a second for 30 - 10 ms
		{8, 0, Options{Objective: 10 * time.Millisecond}, 1},  // never shut
	} {
		s := busy(c.workers, c.refused)
		if got := s.queue(c.o.WithDefaults()); !near(got, c.want) {
			t.Errorf("%v workers, %v refused, %+v: a queue of %v; want %v", c.workers, c.refused, c.o, got, c.want)
		}
	}
}

// The moments of drains are parts of a second by a power of two, or seconds by one,
// so that gates which see about the same latency find common ones: the coarser are
// among the finer.
func TestMomentsAreCommon(t *testing.T) {
	window := func(latency time.Duration) *window {
		return &window{busy: 1, latency: float64(latency)}
	}
	for _, c := range []struct {
		verified bool
		latency  time.Duration
		want     time.Duration
	}{
		{false, 3 * time.Millisecond, time.Second / 64},
		{false, 20 * time.Millisecond, time.Second / 32},
		{false, 3 * time.Second, 4 * time.Second},
		{true, 2 * time.Millisecond, 4 * time.Second},
		{true, 15 * time.Millisecond, 8 * time.Second},
		{true, time.Second, 32 * time.Second}, // no rarer than that
	} {
		f := flow{rate: 1}
		if c.verified {
			f.verified = 1
		}
		if got := f.every(window(c.latency)); got != int64(c.want) {
			t.Errorf("verified %v, latency %v: every %v; want %v", c.verified, c.latency, time.Duration(got), c.want)
		}
	}
	at := window(20 * time.Millisecond)
	at.now, at.elapsed = int64(time.Second)+5, 10
	if !at.crossed(int64(time.Second/32), 0) || !at.crossed(int64(time.Second), 0) || at.crossed(int64(4*time.Second), 0) {
		t.Error("a window over the first second must cross the moments of a second and of its parts, not those of four")
	}
	if !at.crossed(int64(4*time.Second), int64(3*time.Second)) {
		t.Error("the epoch must move the moments")
	}
}

// What must come back for a queue lies between what comes where latency is the
// backend's own, k+1 times what is out in k latencies, and what comes from a queue,
// which is as much as before.
func TestVerdictFallsBetween(t *testing.T) {
	for _, held := range []float64{1, 2, 5, 20, 100} {
		for _, f := range []float64{0.1, 0.25, 0.5} {
			d := drain{slow: 20 * ms, top: held / f / (20 * ms)}
			enough, cycles := d.enough(held)
			own, queue := held*(cycles+1), held*cycles/f
			if queue > own && (enough <= own || enough >= queue) {
				t.Errorf("%v of %v held: %v must come back; want between %v and %v", held, held/f, enough, own, queue)
			}
			if cycles < 2 || cycles > 6 {
				t.Errorf("%v held: it looks for %v latencies", held, cycles)
			}
		}
	}
}

// Latency that is in proportion to what is in flight has elasticity 1, one that
// does not care 0, and too little contrast says nothing.
func TestElasticity(t *testing.T) {
	for name, want := range map[string]float64{"queue": 1, "flat": 0} {
		latency := func(held float64) float64 {
			if name == "queue" {
				return held * ms
			}
			return 10 * ms
		}
		w := &window{calm: 400, busy: 400, calmHeld: 400 * 4, calmLatency: 400 * latency(4)}
		w.held, w.latency = w.calmHeld+400*12, w.calmLatency+400*latency(12)
		var c contrast
		c.add(w)
		if got, ok := c.elasticity(); !ok || !near(got, want) {
			t.Errorf("%s: elasticity %v, %v; want %v", name, got, ok, want)
		}
		if w.flat() != (name == "flat") {
			t.Errorf("%s: flat = %v", name, w.flat())
		}
	}
	w := &window{calm: 400, busy: 400, calmHeld: 400 * 8, calmLatency: 400 * ms, held: 800 * 8, latency: 800 * ms}
	var c contrast
	c.add(w)
	if e, ok := c.elasticity(); ok {
		t.Errorf("the same number in flight says elasticity %v", e)
	}
}

// A verdict that raised the limit holds where more in flight brought more, and
// fails where it only brought latency.
func TestTrial(t *testing.T) {
	was, verified := 10.0, 10/(10*ms) // ten in flight, a thousand a second
	on := trial{doubt: 5 * ms}
	seen := func(held, rate float64) *window {
		n := rate * 1e9
		return &window{elapsed: 1e9, busy: int(n), latency: held * 1e9}
	}
	for name, c := range map[string]struct {
		w    *window
		t    trial
		want bool
	}{
		"twice the throughput":       {seen(20, 2*verified), on, false},
		"twice in flight, no more":   {seen(20, verified), on, true},
		"a quarter more of it":       {seen(20, 1.25*verified), on, false},
		"nothing is on trial":        {seen(20, verified), trial{}, false},
		"the latency that it stated": {seen(10, verified), on, false},
	} {
		if got := c.t.failed(c.w, 10*ms, was, verified); got != c.want {
			t.Errorf("%s: failed = %v; want %v", name, got, c.want)
		}
	}
}

// Drops of more than a twentieth lower a ceiling by a tenth, and at least by one, never
// below the minimum; without them it rises until it is over the limit and gone.
func TestDropsHold(t *testing.T) {
	o := Options{MinLimit: 3}.WithDefaults()
	many, few := &window{busy: 90, dropped: 10}, &window{busy: 96, dropped: 4}
	var d drops
	for _, want := range []float64{18, 17, 16} {
		if !d.hold(o, many, 20, int(want/0.9+0.5)) {
			t.Error("a tenth of drops is many")
		}
	}
	if d.hold(o, &window{dropped: 1, busy: 1}, 20, 3); d.ceiling != 3 {
		t.Errorf("the ceiling is %v; want the minimum of 3", d.ceiling)
	}
	var seen []float64
	for d.ceiling > 0 && len(seen) < 50 {
		seen = append(seen, d.ceiling)
		if d.hold(o, few, 20, int(d.ceiling)) {
			t.Fatal("four in a hundred are few")
		}
	}
	if len(seen) > 25 || seen[1] != 4 {
		t.Errorf("the ceiling went %v; want one more at first, a tenth later, and an end", seen)
	}
}

// Callers that leave teach the age that a tenth of them have not reached.
func TestPatienceIsALowQuantile(t *testing.T) {
	var c callers
	c.learn(&window{busy: 10, left: left{older: 10, youngest: 100 * ms}})
	if c.patience != 100*ms {
		t.Fatalf("patience = %v ms; want that of the youngest who left", c.patience/ms)
	}
	rise := c
	rise.learn(&window{busy: 10, left: left{older: 10, youngest: 200 * ms}})
	if !near(rise.patience, 100*math.Exp(0.05)*ms) {
		t.Errorf("nobody left before 200 ms, and patience = %v ms; want a twentieth more", rise.patience/ms)
	}
	still := c
	still.learn(&window{busy: 10, left: left{younger: 1, older: 9, youngest: 50 * ms}})
	if !near(still.patience, 100*ms) {
		t.Errorf("a tenth left before, and patience moved to %v ms", still.patience/ms)
	}
	fall := c
	fall.learn(&window{busy: 10, left: left{younger: 9, older: 1, youngest: 50 * ms}})
	if fall.patience >= 100*ms || fall.patience < 80*ms {
		t.Errorf("most left before, and patience = %v ms; want less, by a fifth at most", fall.patience/ms)
	}
	forgets := c
	forgets.learn(&window{busy: 1000, elapsed: 60e9, left: left{younger: 1, youngest: 20 * ms}})
	if !near(forgets.patience, 100*math.E*ms) {
		t.Errorf("one in a thousand left, and after a minute patience = %v ms; want it to be forgotten", forgets.patience/ms)
	}
}
