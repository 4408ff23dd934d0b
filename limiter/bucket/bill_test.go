package bucket_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/limiter/bucket"
)

// A bill is paid as a whole or not at all: what the buckets before the one that refuses
// were paid they get back, and with it the places of those who would have waited.
func TestBillIsPaidAsAWhole(t *testing.T) {
	first := bucket.New(bucket.Rate{PerSecond: 10}, 0)
	lender := bucket.New(bucket.Rate{PerSecond: 10, BurstSeconds: 0.1, QueueDepth: 1}, 0)
	last := bucket.New(bucket.Rate{PerSecond: 2}, 0)
	bill := bucket.Bill{{Bucket: first, Tokens: 3}, {Tokens: 99}, {Bucket: lender, Tokens: 1}, {Bucket: last, Tokens: 2}}
	paid, wait, refused := bill.Pay(0, 0)
	if refused != nil || wait != 0 {
		t.Fatalf("the first bill waits %v for %v; want it paid", wait, refused)
	}
	if first.Tokens(0) != 7 || lender.Tokens(0) != 0 || last.Tokens(0) != 0 {
		t.Errorf("%v, %v and %v tokens are left; want 7, 0, 0", first.Tokens(0), lender.Tokens(0), last.Tokens(0))
	}
	// The second would borrow, and is refused by who comes after the lender.
	if _, wait, refused := bill.Pay(0, 0); refused != last || wait != time.Second {
		t.Errorf("the second bill waits %v for %p; want a second, for the last bucket", wait, refused)
	}
	if first.Tokens(0) != 7 || lender.Tokens(0) != 0 || lender.Waiting() != 0 {
		t.Errorf("%v and %v tokens are left, and %d wait, after a bill that was refused; want 7, 0, and nobody", first.Tokens(0), lender.Tokens(0), lender.Waiting())
	}
	for range 2 { // the second time it counts no more
		paid.Refund()
		if first.Tokens(0) != 10 || lender.Tokens(0) != 1 || last.Tokens(0) != 2 {
			t.Errorf("%v, %v and %v tokens after a refund; want 10, 1, 2", first.Tokens(0), lender.Tokens(0), last.Tokens(0))
		}
	}
}
