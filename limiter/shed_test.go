package limiter_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// classes is what the configuration makes of an empty section.
func classes() *limiter.Classes {
	return &limiter.Classes{Floor: [4]float64{.01, .01, .01, .01}}
}

// classed returns a policy of one limit with classes, and an automatic queue.
func classed(limit int) *limiter.Policy {
	return &limiter.Policy{Classes: classes(), Default: limiter.PartitionPolicy{NewLimit: newFixed(limit), QueueAuto: true}}
}

// Ten times the capacity arrives in the lowest class: the critical requests are
// served as if it were not there, the lowest class keeps its floor and what is
// left, and the line is found within a second and stays.
func TestFloodOfALowClass(t *testing.T) {
	for seed := range uint64(5) {
		y := newSimGate(classed(20), seed)
		least, most := 127, 0
		y.each = func(now time.Duration) {
			if now >= 2*time.Second { // a second after the flood began
				line := y.gate.Status().ShedThreshold
				least, most = min(least, line), max(most, line)
			}
		}
		const ms = time.Millisecond
		got := y.play(20*time.Second,
			source{name: "critical", req: limiter.Request{}, rate: 1000, hold: 10 * ms},
			source{name: "low", req: limiter.Request{Class: labels.Sheddable}, rate: 20_000, hold: 10 * ms, from: time.Second},
		)
		crit, low := got["critical"], got["low"]
		t.Logf("seed %d: critical %v, low %v, line from %d to %d", seed, *crit, *low, least, most)
		if refused := float64(crit.refused) / float64(crit.offered); refused > 0.001 || crit.shed > 0 {
			t.Errorf("seed %d: of the critical requests %.3f%% were refused, %d shed; want at most 0.1%% and none", seed, 100*refused, crit.shed)
		}
		if perSecond := float64(low.served) / 19; perSecond < 500 {
			t.Errorf("seed %d: %.0f sheddable requests a second; want at least half of the 1000 that are left", seed, perSecond)
		}
		if most-least > 6 {
			t.Errorf("seed %d: the line moved from level %d to %d; want a twentieth of 128 levels at most", seed, least, most)
		}
		if low.shed < low.refused*9/10 {
			t.Errorf("seed %d: %d of %d refusals were by the line; want nine of ten", seed, low.shed, low.refused)
		}
	}
}

// When even the critical requests are ten times too many, nobody starves: a
// class keeps its floor, and what matters most is served as if alone.
func TestFloorsAndTheTop(t *testing.T) {
	const ms = time.Millisecond
	y := newSimGate(classed(20), 1)
	got := y.play(20*time.Second,
		source{name: "top", req: limiter.Request{Class: labels.CriticalPlus}, rate: 500, hold: 10 * ms},
		source{name: "critical", req: limiter.Request{}, rate: 20_000, hold: 10 * ms, from: time.Second},
		source{name: "low", req: limiter.Request{Class: labels.Sheddable}, rate: 500, hold: 10 * ms, from: time.Second},
	)
	for name, o := range got {
		t.Logf("%s: %v", name, *o)
	}
	if top := got["top"]; float64(top.refused) > 0.001*float64(top.offered) {
		t.Errorf("critical-plus: %d of %d refused; want at most 0.1%%", top.refused, top.offered)
	}
	if crit := got["critical"]; crit.served < 19*800 {
		t.Errorf("critical: %d served; want more than half of the 1500 a second that are left", crit.served)
	}
	if low := got["low"]; low.served < 19*12 {
		t.Errorf("sheddable: %d served in 19 s; want its floor, a hundredth of 1500 a second", low.served)
	}
}

// A tenant is on one side of the line, and its retries with it; which tenants
// those are changes by the hour.
func TestCohortsKeepTheirSide(t *testing.T) {
	const ms = time.Millisecond
	p := classed(20)
	p.Total = 20
	y := newSimGate(p, 1)
	sources := []source{{name: "critical", req: limiter.Request{Key: "main"}, rate: 200, hold: 10 * ms}}
	for i := range 40 {
		name := "tenant" + string(rune('A'+i))
		sources = append(sources, source{name: name, req: limiter.Request{Key: name, Class: labels.Sheddable}, rate: 100, hold: 10 * ms})
	}
	y.play(2*time.Second, sources...) // until the line has settled
	before := map[string]causeTotal{}
	for name, o := range y.tally {
		before[name] = *o
	}
	y.play(3 * time.Second)
	served, shed, mixed := 0, 0, 0
	for name, o := range y.tally {
		n := float64(o.offered - before[name].offered)
		switch out := float64(o.shed-before[name].shed) / n; {
		case name == "critical":
		case out < 0.1:
			served++
		case out > 0.9:
			shed++
		default:
			mixed++
		}
	}
	if served < 5 || shed < 10 || mixed > 10 {
		t.Errorf("of 40 tenants %d are served, %d shed, %d a bit of both; want nearly all on one side", served, shed, mixed)
	}
}

// After an overload nobody comes for a while, and then those who matter least, by
// themselves or behind one who passes. They found the line of the overload, and up to
// fifteen were shed by an idle gate before one of them was the sixteenth, who moves
// it; and it was moved by what had been counted before the silence.
func TestLineOfLongAgo(t *testing.T) {
	const ms = time.Millisecond
	sources := []source{{name: "critical", req: limiter.Request{Key: "main"}, rate: 200, hold: 10 * ms, until: 2 * time.Second}}
	for i := range 20 {
		key := "tenant" + string(rune('A'+i))
		sources = append(sources, source{name: key, req: limiter.Request{Key: key, Class: labels.Sheddable}, rate: 500, hold: 10 * ms, until: 2 * time.Second})
	}
	for first := range sources {
		p := classed(20)
		p.Total, p.Classes = 20, &limiter.Classes{} // no floor: it would hide the line
		y := newSimGate(p, 1)
		y.play(2200*ms, sources...) // the last 200 ms for what is in flight
		if s := y.gate.Status(); s.ShedThreshold == 127 || s.InFlight > 0 {
			t.Fatalf("after the flood the line is at %d, with %d in flight", s.ShedThreshold, s.InFlight)
		}
		y.clock.now.Add(int64(2 * time.Second))
		for i := range sources {
			s := sources[(first+i)%len(sources)]
			permit, err := y.gate.TryAdmit(y.gate.Now(), s.req)
			if err != nil {
				t.Errorf("%s first, then %s: %v", sources[first].name, s.name, err)
				continue
			}
			permit.End(limiter.Success)
		}
	}
}

// Nobody who matters little is refused while there is room: without an overload
// there is no line, and after one it goes away.
func TestLineGoesAway(t *testing.T) {
	const ms = time.Millisecond
	y := newSimGate(classed(20), 1)
	y.play(5*time.Second, source{name: "flood", req: limiter.Request{Class: labels.Sheddable}, rate: 20_000, hold: 10 * ms, until: 5 * time.Second},
		source{name: "critical", req: limiter.Request{}, rate: 100, hold: 10 * ms})
	if s := y.gate.Status(); s.ShedThreshold == 127 {
		t.Fatalf("in the flood the line is at %d", s.ShedThreshold)
	}
	y.play(20*time.Second, source{name: "low", req: limiter.Request{Class: labels.Sheddable}, rate: 500, hold: 10 * ms})
	if s := y.gate.Status(); s.ShedThreshold != 127 {
		t.Errorf("twenty seconds after the flood the line is at %d; want that nobody is shed", s.ShedThreshold)
	}
	if low := y.tally["low"]; float64(low.shed) > 0.05*float64(low.offered) {
		t.Errorf("a quarter of the capacity: %d of %d shed; want a second's worth at most", low.shed, low.offered)
	}
}

// To shed costs no allocation.
func TestSheddingAllocatesNothing(t *testing.T) {
	const ms = time.Millisecond
	y := newSimGate(classed(20), 1)
	y.play(3*time.Second, source{name: "low", req: limiter.Request{Class: labels.Sheddable}, rate: 20_000, hold: 10 * ms},
		source{name: "critical", req: limiter.Request{}, rate: 1000, hold: 10 * ms})
	shed := 0
	if n := testing.AllocsPerRun(1000, func() {
		if _, _, err := y.gate.Offer(y.clock.Now(), limiter.Request{Class: labels.Sheddable, MaxWait: limiter.NoWait}); err != nil {
			shed++
		}
	}); n != 0 || shed < 900 {
		t.Errorf("%v allocations, %d of 1000 refused; want none, and nearly all", n, shed)
	}
}
