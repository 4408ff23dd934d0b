package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/limiter"
)

// tracer notes what it is told.
type tracer struct{ told []string }

// Offered implements [limiter.Tracer].
func (t *tracer) Offered(now int64, key string, cost float64) {
	t.told = append(t.told, fmt.Sprintf("%d offered %s %v", now, key, cost))
}

// Ended implements [limiter.Tracer].
func (t *tracer) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	t.told = append(t.told, fmt.Sprintf("%d ended, began %d, %v %v", now, start, latency, o))
}

// stopped is a clock that a test moves.
type stopped int64

// Now implements [limiter.Clock].
func (s *stopped) Now() int64 { return int64(*s) }

// Trusted implements [limiter.Clock].
func (*stopped) Trusted() bool { return true }

// Epoch implements [limiter.Clock].
func (*stopped) Epoch() uint32 { return 0 }

// Every request is told, refused ones too, and every permit that ends, so that
// a recording can be put together again.
func TestTracerHearsEveryRequest(t *testing.T) {
	heard, clock := &tracer{}, stopped(10)
	g := limiter.New("x", &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return one{} }, Signature: "1",
	}}, limiter.Options{Clock: &clock, Tracer: heard})
	permit, err := g.TryAdmit(10, limiter.Request{Key: "a", Cost: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.TryAdmit(12, limiter.Request{Key: "a"}); err == nil {
		t.Fatal("a second permit was granted")
	}
	clock = 25
	permit.End(limiter.Success)
	permit.End(limiter.Success)
	want := []string{"10 offered a 3", "12 offered a 1", "25 ended, began 10, 15ns success"}
	if diff := cmp.Diff(want, heard.told); diff != "" {
		t.Errorf("the tracer heard (-want +got):\n%s", diff)
	}
}

// one is a limit of 1.
type one struct{}

// Current implements [limiter.Limit].
func (one) Current() int { return 1 }

// Observe implements [limiter.Limit].
func (one) Observe(int64, time.Duration, int, bool) {}

// countedClock counts how often it is read.
type countedClock struct {
	stopped

	reads int
}

// Now implements [limiter.Clock].
func (c *countedClock) Now() int64 { c.reads++; return c.stopped.Now() }

// A tracer can be exchanged while the gate serves, and one that was taken out costs
// nothing: a request that finds its partition full is refused without a clock.
func TestTracerIsExchanged(t *testing.T) {
	first, second, clock := &tracer{}, &tracer{}, &countedClock{stopped: 10}
	g := limiter.New("x", &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return one{} }, Signature: "1",
	}}, limiter.Options{Clock: clock, Tracer: first})
	permit, err := g.Admit(t.Context(), limiter.Request{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tracer limiter.Tracer
		reads  int
	}{{second, 1}, {nil, 0}, {second, 1}, {nil, 0}} {
		g.Trace(c.tracer)
		clock.reads = 0
		if _, err := g.Admit(t.Context(), limiter.Request{Key: "a"}); err == nil {
			t.Fatal("a second permit was granted")
		}
		if clock.reads != c.reads {
			t.Errorf("with tracer %v a refusal read the clock %d times; want %d", c.tracer, clock.reads, c.reads)
		}
	}
	permit.End(limiter.Success)
	if diff := cmp.Diff([]string{"10 offered a 1"}, first.told); diff != "" {
		t.Errorf("the first tracer heard (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10 offered a 1", "10 offered a 1"}, second.told); diff != "" {
		t.Errorf("the second tracer heard (-want +got):\n%s", diff)
	}
}
