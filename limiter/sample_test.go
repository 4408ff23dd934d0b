package limiter_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// samplingClock counts what it is told of latencies.
type samplingClock struct {
	stoppedClock

	good, bad int
}

// Sample implements the optional method of [limiter.Clock].
func (c *samplingClock) Sample(ok bool) {
	if ok {
		c.good++
	} else {
		c.bad++
	}
}

// Streams, log tails and long queries last for minutes and are true. Three of
// 203 once made the guard distrust the clock and put every ingress on its
// fallback for ten minutes. Only what is not above zero speaks against a clock.
func TestLongLatencyIsNoEvidence(t *testing.T) {
	clock := &samplingClock{}
	g := limiter.New("g", &limiter.Policy{}, limiter.Options{Clock: clock})
	for i := range 203 {
		p, err := g.TryAdmit(clock.Now(), limiter.Request{})
		if err != nil {
			t.Fatal(err)
		}
		held := time.Millisecond
		if i%70 == 0 {
			held = 61 * time.Second
		}
		clock.now.Add(int64(held))
		p.End(limiter.Success)
	}
	p, _ := g.TryAdmit(clock.Now(), limiter.Request{})
	p.End(limiter.Success) // the clock stood still
	if clock.good != 203 || clock.bad != 1 {
		t.Errorf("samples: %d good, %d bad; want 203 and the one of no time at all", clock.good, clock.bad)
	}
}
