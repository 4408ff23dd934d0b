// Package limittest checks whatever claims to be a [limiter.Limit].
//
// [Run] checks what all limits must keep, whatever their curve: never below 1,
// no surprise on impossible samples, fewer permits when everything is dropped,
// rest on a steady signal, no lock that waits and no allocation on the request
// path. A limit's own test then covers only its curve.
package limittest

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

const (
	latency   = 10 * time.Millisecond
	perWindow = 40
	window    = time.Second
	highest   = 1_000_000 // no limit is worth its name above this
)

// Run checks the limits that newLimit makes, each in a subtest with one of its
// own. A limit whose Algorithm method says "fixed" must never move; every other
// one must shrink when all work is dropped and grow again afterwards.
func Run(t *testing.T, newLimit func() limiter.Limit) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, *driver){
		"rests on a steady signal":   rests,
		"shrinks on drops":           shrinks,
		"grows back after drops":     growsBack,
		"does not grow unused":       idle,
		"survives hostile samples":   hostile,
		"is safe for concurrent use": concurrent,
		"allocates nothing":          allocates,
	} {
		t.Run(name, func(t *testing.T) { check(t, &driver{t: t, limit: newLimit()}) })
	}
}

// driver feeds a limit and looks at it after every sample.
type driver struct {
	t     *testing.T
	limit limiter.Limit
	now   int64
}

// adaptive reports whether the limit is meant to move.
func (d *driver) adaptive() bool {
	named, ok := d.limit.(interface{ Algorithm() string })
	return !ok || named.Algorithm() != "fixed"
}

// windows feeds n seconds of samples with the given number in flight; 0 means
// as many as the limit allows.
func (d *driver) windows(n, inFlight int, dropped bool) {
	d.t.Helper()
	for range n * perWindow {
		held := inFlight
		if held == 0 {
			held = d.limit.Current()
		}
		d.now += int64(window / perWindow)
		d.observe(latency, held, dropped)
	}
}

func (d *driver) observe(latency time.Duration, inFlight int, dropped bool) {
	d.t.Helper()
	d.limit.Observe(d.now, latency, inFlight, dropped)
	if got := d.limit.Current(); got < 1 || got > highest {
		d.t.Fatalf("Current() = %d after Observe(%d, %v, %d, %t); want it within [1, %d]", got, d.now, latency, inFlight, dropped, highest)
	}
}

// On the same samples again and again the limit comes to rest.
func rests(t *testing.T, d *driver) {
	t.Helper()
	d.windows(300, 20, false)
	want := d.limit.Current()
	for i := range 50 {
		d.windows(1, 20, false)
		if got := d.limit.Current(); got != want {
			t.Fatalf("Current() = %d in window %d of a steady signal; want it at rest at %d", got, 300+i, want)
		}
	}
}

// When everything is dropped the limit goes down, however long it lasts, and
// stays usable.
func shrinks(t *testing.T, d *driver) {
	t.Helper()
	d.windows(20, 0, false)
	before := d.limit.Current()
	d.windows(60, 0, true)
	switch after := d.limit.Current(); {
	case d.adaptive() && before > 1 && after >= before:
		t.Errorf("Current() = %d after a minute of nothing but drops; want less than the %d before", after, before)
	case !d.adaptive() && after != before:
		t.Errorf("Current() = %d after a minute of drops; want a fixed limit to stay at %d", after, before)
	}
}

// After an outage the limit is not stuck.
func growsBack(t *testing.T, d *driver) {
	t.Helper()
	if !d.adaptive() {
		t.Skip("a fixed limit does not move")
	}
	d.windows(20, 0, false)
	d.windows(60, 0, true)
	low := d.limit.Current()
	d.windows(60, 0, false)
	if got := d.limit.Current(); got <= low {
		t.Errorf("Current() = %d a minute after the outage; want more than the %d it fell to", got, low)
	}
}

// A limit that is not used says nothing of how much the backend could bear.
func idle(t *testing.T, d *driver) {
	t.Helper()
	before := d.limit.Current()
	d.windows(300, 1, false)
	if got := d.limit.Current(); got > before+1 {
		t.Errorf("Current() = %d after 5 minutes with 1 in flight; want no growth from %d", got, before)
	}
}

// Samples that cannot be true neither break the limit nor its learning.
func hostile(t *testing.T, d *driver) {
	t.Helper()
	durations := []time.Duration{0, -1, math.MinInt64, 1, latency, time.Minute + 1, time.Hour, math.MaxInt64}
	counts := []int{0, -1, math.MinInt, 1, 20, 1 << 20, math.MaxInt}
	times := []int64{0, -1, math.MinInt64, math.MaxInt64, int64(time.Hour), 1}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible, not secret
	for range 20_000 {
		d.now = times[random.IntN(len(times))]
		if random.IntN(2) == 0 {
			d.now = random.Int64N(int64(24 * time.Hour))
		}
		d.observe(durations[random.IntN(len(durations))], counts[random.IntN(len(counts))], random.IntN(2) == 0)
	}
	d.now = int64(48 * time.Hour)
	d.windows(60, 0, false)
	healthy := d.limit.Current()
	d.windows(60, 0, true)
	if got := d.limit.Current(); d.adaptive() && healthy > 1 && got >= healthy {
		t.Errorf("Current() = %d after drops that followed hostile samples; want less than %d: it no longer learns", got, healthy)
	}
}

// Many permits end at once, and someone always asks for the limit.
func concurrent(t *testing.T, d *driver) {
	t.Helper()
	const callers, each = 8, 5000
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				now := int64(i) * int64(time.Millisecond)
				d.limit.Observe(now, latency, 1+i%30, (i+caller)%50 == 0)
				if got := d.limit.Current(); got < 1 || got > highest {
					t.Errorf("Current() = %d; want it within [1, %d]", got, highest)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Neither a sample nor the end of a window allocates.
func allocates(t *testing.T, d *driver) {
	t.Helper()
	allocs := testing.AllocsPerRun(1000, func() {
		d.now += int64(50 * time.Millisecond)
		d.limit.Observe(d.now, latency, d.limit.Current(), d.now%7 == 0)
	})
	if allocs != 0 {
		t.Errorf("Observe allocates %v times; want 0", allocs)
	}
}
