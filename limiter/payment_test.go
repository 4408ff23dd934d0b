package limiter_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A bill is paid as a whole or not at all, whatever the buckets hold, and what a
// receipt gives back is what was paid.
func TestBillIsPaidWholeOrNotAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var bill limiter.Bill
		for range rapid.IntRange(0, 5).Draw(t, "dues") {
			b := limiter.NewBucket(limiter.Rate{
				PerSecond:  float64(rapid.IntRange(0, 9).Draw(t, "rate")),
				QueueDepth: rapid.IntRange(0, 3).Draw(t, "queue"),
			}, 0)
			b.Take(0, float64(rapid.IntRange(0, 9).Draw(t, "spent before")))
			bill = append(bill, limiter.Due{Bucket: b, Tokens: float64(rapid.IntRange(1, 9).Draw(t, "tokens"))})
		}
		tokens := func() (all []float64) {
			for _, due := range bill {
				all = append(all, due.Bucket.Tokens(0))
			}
			return all
		}
		before := tokens()
		maxWait := rapid.SampledFrom([]time.Duration{-1, 0, time.Second}).Draw(t, "max wait")
		paid, wait, refused := bill.Pay(0, maxWait)
		for i, after := range tokens() {
			want := before[i]
			if refused == nil && bill[i].Bucket != nil {
				want -= bill[i].Tokens
			}
			if diff := after - want; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("bucket %d holds %v; want %v (refused: %v)", i, after, want, refused != nil)
			}
			if refused == nil && after < 0 && (wait <= 0 || maxWait < 0) {
				t.Errorf("bucket %d is owed %v, without a wait or against the caller's will", i, -after)
			}
		}
		if refused == nil && maxWait > 0 && wait > maxWait {
			t.Errorf("a wait of %v; at most %v was allowed", wait, maxWait)
		}
		for range 2 {
			paid.Refund()
		}
		for i, after := range tokens() {
			if diff := after - before[i]; diff > 1e-6 || diff < -1e-6 {
				t.Errorf("bucket %d holds %v after the refund; want %v as before", i, after, before[i])
			}
		}
	})
}

// A bucket that was refused for good says so, others say how long.
func TestPayTellsTheWait(t *testing.T) {
	b := limiter.NewBucket(limiter.Rate{PerSecond: 2}, 0)
	for tokens, want := range map[float64]time.Duration{3: 0, 2: 500 * time.Millisecond} {
		b.Refund(2)
		b.Take(0, 1)
		_, wait, refused := limiter.Bill{{Bucket: b, Tokens: tokens}}.Pay(0, 0)
		if refused != b || wait != want {
			t.Errorf("Pay(%v of 2) = %v, %v; want %v", tokens, wait, refused == b, want)
		}
	}
}

// The place of a borrower is free once its debt is settled.
func TestSettleFreesThePlace(t *testing.T) {
	b := limiter.NewBucket(limiter.Rate{PerSecond: 1, QueueDepth: 1}, 0)
	bill := limiter.Bill{{Bucket: b, Tokens: 1}}
	bill.Pay(0, 0)
	borrowed, wait, refused := bill.Pay(0, 0)
	if refused != nil || wait != time.Second {
		t.Fatalf("Pay = %v, %v; want a debt of a second", wait, refused)
	}
	if _, _, refused := bill.Pay(0, 0); refused != b {
		t.Errorf("a second one borrowed at a queue of one")
	}
	borrowed.Settle()
	borrowed.Settle()
	if _, wait, refused := bill.Pay(0, 0); refused != nil || wait != 2*time.Second {
		t.Errorf("after the debt was settled: %v, %v; want to wait behind it", wait, refused)
	}
}

// A caller holds on to its reading of the clock for a moment, and a bucket may
// be shallower than that: a reading 4 ms old looked like a clock that ran
// backwards, and refilled a bucket of 1 ms.
func TestAnOldReadingRefillsNothing(t *testing.T) {
	const now = int64(time.Second)
	b := limiter.NewBucket(limiter.Rate{PerSecond: 1000, BurstSeconds: 0.001}, 0)
	if _, ok := b.Take(now, 1); !ok {
		t.Fatal("a full bucket refused")
	}
	for range 10 {
		if _, ok := b.Take(now-int64(4*time.Millisecond), 1); ok {
			t.Fatal("an empty bucket granted a token to a caller that was late")
		}
	}
	if _, ok := b.Take(now, 1); ok {
		t.Error("the late caller refilled the bucket")
	}
}

// A charge goes to the buckets that admission paid: a reload may have brought
// others since, and a refund to these would mint tokens.
func TestChargeGoesWhereWasPaid(t *testing.T) {
	policy := func(r limiter.Rate) *limiter.Policy {
		return &limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "a", Rate: r, NewLimit: newFixed(100), Signature: "a"}}}
	}
	g := limiter.New("g", policy(limiter.Rate{}), limiter.Options{Clock: &stoppedClock{}})
	early, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	g.Apply(policy(limiter.Rate{PerSecond: 10}))
	late, _ := g.TryAdmit(0, limiter.Request{Key: "a", Cost: 5})
	tokens := func() float64 { return g.Status().Partitions[0].Bucket.Tokens }
	early.Charge(-3)
	early.Charge(3)
	if got := tokens(); got != 5 {
		t.Errorf("%v tokens after one that paid nothing was charged; want 5", got)
	}
	late.Charge(-2)
	if got := tokens(); got != 7 {
		t.Errorf("%v tokens after a refund of 2; want 7", got)
	}
	late.Charge(4)
	if got := tokens(); got != 3 {
		t.Errorf("%v tokens after a charge of 4; want 3", got)
	}
	late.End(limiter.Success)
	late.Charge(-2)
	if got := tokens(); got != 3 {
		t.Errorf("%v tokens after a refund to a permit that had ended; want 3", got)
	}
}

// Shadow mode passes requests that pay nothing; nothing is given back for them.
func TestShadowRefundsNothingUnpaid(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Mode: limiter.Shadow, Rate: limiter.Rate{PerSecond: 4}}, limiter.Options{Clock: &stoppedClock{}})
	g.TryAdmit(0, limiter.Request{Cost: 4})
	p, err := g.TryAdmit(0, limiter.Request{Cost: 4})
	if err != nil {
		t.Fatal(err)
	}
	p.Charge(-4)
	if got := g.Status().Bucket.Tokens; got != 0 {
		t.Errorf("%v tokens; want none: the second request took none", got)
	}
}

// What a bucket can never hold passes when it is full, leaves the rest as a debt
// for those who come later, and is given back in full. Without Owe it is never
// paid.
func TestOwedBeyondTheBurst(t *testing.T) {
	b := limiter.NewBucket(limiter.Rate{PerSecond: 2, QueueDepth: 100}, 0)
	bill := limiter.Bill{{Bucket: b, Tokens: 7, Owe: true}}
	if _, wait, refused := (limiter.Bill{{Bucket: b, Tokens: 7}}).Pay(0, -1); refused != b || wait != 0 {
		t.Errorf("Pay(7 of 2) = %v, refused %v; want never", wait, refused == b)
	}
	paid, _, refused := bill.Pay(0, -1)
	if got := b.Tokens(0); refused != nil || got != -5 {
		t.Fatalf("the bucket holds %v (refused: %v); want a debt of 5", got, refused != nil)
	}
	if _, wait, refused := bill.Pay(0, -1); refused != b || wait != 3500*time.Millisecond {
		t.Errorf("Pay again = %v, refused %v; want to wait until the bucket is full in 3.5s", wait, refused == b)
	}
	paid.Refund()
	if got := b.Tokens(0); got != 2 {
		t.Errorf("after the refund the bucket holds %v; want 2", got)
	}
}

// What costs nothing passes an empty bucket and one in debt, and needs a permit.
func TestFreeRequests(t *testing.T) {
	for name, mode := range map[string]limiter.Mode{"enforce": limiter.Enforce, "shadow": limiter.Shadow} {
		t.Run(name, func(t *testing.T) {
			g := limiter.New("test", &limiter.Policy{
				Mode: mode, Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 2000},
				Default: limiter.PartitionPolicy{NewLimit: newFixed(1)},
			}, limiter.Options{Clock: &stoppedClock{}})
			permit, err := g.TryAdmit(1, limiter.Request{Cost: 2})
			if err != nil {
				t.Fatal(err)
			}
			permit.Charge(1)
			permit.End(limiter.Ignored)
			if permit, err = g.TryAdmit(1, limiter.Request{Cost: 5, Free: true}); err != nil {
				t.Fatalf("a free request: %v, want a permit though the bucket is in debt", err)
			}
			_, err = g.TryAdmit(1, limiter.Request{Free: true})
			if refused := err != nil; refused != (mode == limiter.Enforce) {
				t.Errorf("a free request beyond the limit: %v", err)
			}
			permit.End(limiter.Ignored)
			s := g.Status()
			rates := s.Partitions[0].Counts.WouldReject[labels.RequestRate]
			if rates > 0 {
				t.Errorf("%d would be refused by the rate, want none", rates)
			}
			if s.Bucket.Tokens > -0.9 || s.Bucket.Tokens < -1.1 {
				t.Errorf("the bucket holds %v, want a debt of 1 as before", s.Bucket.Tokens)
			}
		})
	}
}
