package limiter_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A queue that stands is no burst: in the lab an automatic queue that stayed
// full through a brown-out to a fifth cost half of what was left of the
// capacity, and hid from the limit how much too much there was.
func TestAutomaticQueueThatStandsIsShut(t *testing.T) {
	const ms = int64(time.Millisecond)
	limit := &slow{base: 10 * time.Millisecond}
	limit.n.Store(1)
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return limit }, QueueAuto: true,
	}}, limiter.Options{Clock: clock})
	held, err := g.TryAdmit(0, limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	var last *limiter.Ticket
	offer := func(at int64) bool {
		clock.now.Store(at)
		_, ticket, err := g.Offer(at, limiter.Request{})
		if last != nil { // who came before leaves, so that the queue never empties and never fills
			last.Abandon()
		}
		last = ticket
		if err != nil && reason(t, err) != labels.ConcurrencyLimit {
			t.Fatalf("at %d ms: %v; want concurrency_limit", at/ms, err)
		}
		return err == nil
	}
	for at := int64(0); at <= 100; at += 10 {
		if !offer(at * ms) {
			t.Fatalf("refused after %d ms; the queue may stand for 100 ms", at)
		}
	}
	for _, at := range []int64{101, 150, 240, 330, 420} { // each keeps it shut
		if offer(at * ms) {
			t.Fatalf("a queue that stands took one at %d ms", at)
		}
	}
	if !offer(521 * ms) {
		t.Error("shut although nobody was turned away for 100 ms")
	}
	held.End(limiter.Success)
}
