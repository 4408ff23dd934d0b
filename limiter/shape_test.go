package limiter_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// p99 of what requests took, from the offer to the end.
func (f *causeTotal) p99() time.Duration {
	took := slices.Sorted(slices.Values(f.took))
	return took[len(took)*99/100]
}

// A few clients that scan, for half a second each time, fill the limit beside
// lookups of a millisecond. The scans are found out and capped: the lookups' p99
// is at most one and a half times what it is without them, and none is refused.
func TestScansAreCappedBesideLookups(t *testing.T) {
	const ms = time.Millisecond
	const length = 60 * time.Second
	policy := func() *limiter.Policy {
		return &limiter.Policy{Shapes: 100, Default: limiter.PartitionPolicy{NewLimit: newFixed(20), QueueAuto: true}}
	}
	play := func(scans bool) (lookups, scan *causeTotal) {
		y := newSimGate(policy(), 1)
		point := y.gate.Shape(1, func() string { return "find orders {_id}" })
		table := y.gate.Shape(2, func() string { return "find orders {}" })
		sources := []source{{name: "lookups", req: limiter.Request{Shape: point}, rate: 4000, hold: ms}}
		if scans {
			sources = append(sources, source{name: "scans", req: limiter.Request{Shape: table}, clients: 50, hold: 500 * ms, backoff: 50 * ms, from: time.Second})
		}
		got := y.play(length, sources...)
		return got["lookups"], got["scans"]
	}
	alone, _ := play(false)
	beside, scans := play(true)
	t.Logf("lookups: p99 %v alone, %v beside scans; %d of %d refused; %d scans served", alone.p99(), beside.p99(), beside.refused, beside.offered, scans.served)
	if beside.p99() > alone.p99()*3/2 {
		t.Errorf("p99 %v; want at most 1.5 of %v", beside.p99(), alone.p99())
	}
	if float64(beside.refused) > 0.02*float64(beside.offered) {
		t.Errorf("%d of %d lookups refused; want nearly none", beside.refused, beside.offered)
	}
	if scans.served < 60 {
		t.Errorf("%d scans served in a minute; want one a second at least: a culprit is capped, not banned", scans.served)
	}
}

// Each shape pays what it was seen to take: beside one rate, work that takes ten
// times as long is admitted a tenth as often, and what is paid in all is what was
// asked for in requests.
func TestShapesPayWhatTheyTake(t *testing.T) {
	const ms = time.Millisecond
	p := &limiter.Policy{Shapes: 100, Rate: limiter.Rate{PerSecond: 1000}, Default: limiter.PartitionPolicy{NewLimit: newFixed(1000)}}
	y := newSimGate(p, 1)
	cheap := y.gate.Shape(1, func() string { return "cheap" })
	dear := y.gate.Shape(2, func() string { return "dear" })
	y.play(60*time.Second,
		source{name: "cheap", req: limiter.Request{Shape: cheap}, rate: 500, hold: ms},
		source{name: "dear", req: limiter.Request{Shape: dear}, rate: 500, hold: 10 * ms},
	)
	all := y.gate.Shapes(10)
	if len(all) != 2 || all[0].Name != "dear" || all[0].Share < 0.85 || all[0].Share > 0.97 {
		t.Fatalf("shapes %+v; want the dear one first, with ten of eleven parts", all)
	}
	if r := all[0].Cost / all[1].Cost; r < 5 || r > 20 {
		t.Errorf("one costs %.1f of the other; want about ten", r)
	}
	if mean := (all[0].Cost*float64(all[0].Ended) + all[1].Cost*float64(all[1].Ended)) / float64(all[0].Ended+all[1].Ended); math.Abs(mean-1) > 0.3 {
		t.Errorf("a request costs %.2f in the mean; want 1", mean)
	}
	if got := y.tally["cheap"]; float64(got.refused) > 0.1*float64(got.offered) {
		t.Errorf("cheap: %d of %d refused; the rate is for as many requests as are offered", got.refused, got.offered)
	}
}

// A million shapes leave a bounded table, and those in use stay.
func TestShapesAreBounded(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{Shapes: 64}, limiter.Options{Clock: clock})
	use := func(h uint64) *limiter.Shape { return g.Shape(h, func() string { return fmt.Sprint("shape ", h) }) }
	for i := range uint64(100_000) {
		clock.now.Add(int64(time.Millisecond))
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Shape: use(1 + i%4)})
		if err != nil {
			t.Fatal(err)
		}
		clock.now.Add(1000)
		p.End(limiter.Success)
		use(1000 + i)
	}
	all := g.Shapes(1000)
	if len(all) > 65 {
		t.Errorf("%d shapes; want at most 64 and the rest", len(all))
	}
	for h := range uint64(4) {
		if !slices.ContainsFunc(all, func(s limiter.ShapeStatus) bool { return s.Name == fmt.Sprint("shape ", 1+h) && s.Ended == 25_000 }) {
			t.Errorf("shape %d, which was in use all the time, is gone", 1+h)
		}
	}
	if g := limiter.New("g", &limiter.Policy{}, limiter.Options{}); g.Shape(1, func() string { t.Error("asked for its name"); return "" }) != nil {
		t.Error("a gate that learns nothing has a shape")
	}
}

// Deciding about a known shape allocates nothing.
func TestShapesAllocateNothing(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Shapes: 10, Rate: limiter.Rate{PerSecond: 1e9}}, limiter.Options{})
	name := func() string { return "a" }
	g.Shape(1, name)
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := g.TryAdmit(g.Now(), limiter.Request{Shape: g.Shape(1, name)})
		p.End(limiter.Success)
	}); n != 0 {
		t.Errorf("%v allocations; want none", n)
	}
}

// A backend that slows down made the only shape there was dear, and the culprit of
// its own refusals (seen live): it was capped at one permit.
func TestNobodyIsTheOnlyDominant(t *testing.T) {
	const ms = time.Millisecond
	p := &limiter.Policy{Shapes: 100, Default: limiter.PartitionPolicy{NewLimit: newFixed(20)}}
	y := newSimGate(p, 1)
	shape := y.gate.Shape(1, func() string { return "all" })
	y.play(3*time.Second, source{name: "a", req: limiter.Request{Shape: shape}, rate: 500, hold: 10 * ms, until: 3 * time.Second})
	y.play(3*time.Second, source{name: "b", req: limiter.Request{Shape: shape}, rate: 500, hold: 200 * ms})
	if s := y.gate.Shapes(1)[0]; s.Refused > 0 || s.Cost > 1.01 || s.Cost < 0.99 {
		t.Errorf("%+v; want that it costs what requests cost, and is not capped", s)
	}
	if got := y.tally["b"].served; got < 230 {
		t.Errorf("%d served in three seconds; want nearly the 300 that fit", got)
	}
}

// When the backend itself queues, lookups behind reports take as long as these:
// by the time held nobody could tell them apart (seen live). The reports are found
// by what requests take when nobody is in their way.
func TestDominantIsFoundInTheBackendsQueue(t *testing.T) {
	const ms = time.Millisecond
	p := &limiter.Policy{Shapes: 100, Default: limiter.PartitionPolicy{NewLimit: newFixed(20), QueueAuto: true}}
	y := newSimGate(p, 1)
	y.workers = 10
	point := y.gate.Shape(1, func() string { return "lookup" })
	table := y.gate.Shape(2, func() string { return "report" })
	got := y.play(30*time.Second,
		source{name: "lookups", req: limiter.Request{Shape: point}, rate: 150, hold: 20 * ms},
		source{name: "reports", req: limiter.Request{Shape: table}, rate: 40, hold: 400 * ms, from: time.Second})
	if lookups := got["lookups"]; float64(lookups.refused) > 0.1*float64(lookups.offered) {
		t.Errorf("%d of %d lookups refused; want nearly none", lookups.refused, lookups.offered)
	}
	t.Logf("lookups %d of %d refused, p99 %v; reports %d of %d refused", got["lookups"].refused, got["lookups"].offered, got["lookups"].p99(), got["reports"].refused, got["reports"].offered)
}

// Permits that a culprit was granted when it was capped before, and that end when
// it is capped again, are none of those that the cap now counts: they once made
// room for as many more.
func TestCapCountsItsOwnPermits(t *testing.T) {
	const ms = int64(time.Millisecond)
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{Shapes: 10, Default: limiter.PartitionPolicy{NewLimit: newFixed(4)}}, limiter.Options{Clock: clock})
	lookup, scan := g.Shape(1, func() string { return "lookup" }), g.Shape(2, func() string { return "scan" })
	admit := func(s *limiter.Shape) *limiter.Permit {
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Shape: s})
		if err != nil {
			return nil
		}
		return &p
	}
	fill := func() (all []*limiter.Permit) {
		for p := admit(scan); p != nil; p = admit(scan) {
			all = append(all, p)
		}
		return all
	}
	end := func(all []*limiter.Permit) {
		clock.now.Add(500 * ms)
		for _, p := range all {
			p.End(limiter.Success)
		}
	}
	one := func(s *limiter.Shape, hold int64) {
		p := admit(s)
		clock.now.Add(hold)
		p.End(limiter.Success)
	}
	offend := func() {
		one(scan, 500*ms)
		one(lookup, ms)
		all := fill()
		if admit(lookup) != nil {
			t.Fatal("a lookup finds room beside scans that fill the limit")
		}
		end(all)
	}
	offend()
	early := fill()
	if len(early) != 2 {
		t.Fatalf("%d scans beside each other; want the two of a cap of half the limit", len(early))
	}
	for range 100 { // nobody complains, and the cap is lifted
		one(lookup, 101*ms/100)
		clock.now.Add(100 * ms)
	}
	offend()
	end(early)
	if again := fill(); len(again) != 2 {
		t.Errorf("%d scans beside each other when they are capped again; want two", len(again))
	}
}
