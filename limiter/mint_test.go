package limiter_test

import (
	"testing"

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
