package limiter_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Who waited while a rate was introduced never paid it a token, and gets none
// back from it: a refund to a bucket that took nothing mints a token.
func TestReloadMintsNoToken(t *testing.T) {
	clock := &stoppedClock{}
	policy := func(r limiter.Rate) *limiter.Policy {
		return &limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "a", Rate: r, NewLimit: newFixed(100), Signature: "a", QueueDepth: 10}}}
	}
	g := limiter.New("g", policy(limiter.Rate{}), limiter.Options{Clock: clock})
	for range 100 {
		p, err := g.TryAdmit(0, limiter.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.End(limiter.Ignored)
	}
	_, ticket, err := g.Offer(0, limiter.Request{Key: "a"})
	if ticket == nil {
		t.Fatalf("the request does not wait: %v", err)
	}
	g.Apply(policy(limiter.Rate{PerSecond: 10}))
	bucket := func() float64 { return g.Status().Partitions[0].Bucket.Tokens }
	charged, _ := g.TryAdmit(0, limiter.Request{Key: "a", Exempt: true})
	charged.Charge(9) // ten tokens in all
	defer charged.End(limiter.Ignored)
	if got := bucket(); got != 0 {
		t.Fatalf("%v tokens before, want none", got)
	}
	ticket.Abandon()
	if got := bucket(); got != 0 {
		t.Errorf("%v tokens after the request gave up, want none: it had paid none", got)
	}
}

// Who gives up at the moment at which a permit is granted has the tokens back, as
// one that gives up before: no work ran. They were once gone.
func TestAbandonedPermitCostsNothing(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 10},
		Default: limiter.PartitionPolicy{NewLimit: newFixed(1), QueueDepth: 1},
	}, limiter.Options{Clock: &stoppedClock{}})
	busy, err := g.TryAdmit(0, limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	ticket := wait(t, g, limiter.Request{Cost: 4})
	busy.End(limiter.Success)
	if !isServed(t, ticket) {
		t.Fatal("the place that became free was not granted")
	}
	ticket.Abandon()
	if s := g.Status(); s.Bucket.Tokens != 9 || s.InFlight != 0 {
		t.Errorf("%v tokens and %d in flight; want nine, and nobody", s.Bucket.Tokens, s.InFlight)
	}
}

// A statement inside a transaction pays nothing, and so has nothing back when it
// takes less than its shape does: each once minted what it had saved.
func TestWhatPaysNothingSettlesNothing(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{Shapes: 10, Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 10_000}}, limiter.Options{Clock: clock})
	cheap, dear := g.Shape(1, func() string { return "cheap" }), g.Shape(2, func() string { return "dear" })
	run := func(s *limiter.Shape, hold time.Duration, inside bool) {
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Shape: s, Exempt: inside, Continues: inside})
		if err != nil {
			t.Fatal(err)
		}
		clock.now.Add(int64(hold))
		p.End(limiter.Success)
	}
	for range 20 {
		run(cheap, time.Millisecond, false)
		run(dear, 10*time.Millisecond, false)
	}
	before := g.Status().Bucket.Tokens
	for range 5 {
		run(dear, time.Millisecond, true)
	}
	if after := g.Status().Bucket.Tokens; after > before+0.1 || after < before {
		t.Errorf("%v tokens before and %v after; want as many", before, after)
	}
}
