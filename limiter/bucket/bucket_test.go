package bucket_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/limiter/bucket"
)

// step is one call on a bucket, at an offset from the start.
type step struct {
	at     time.Duration
	n      float64
	wait   time.Duration
	ok     bool
	tokens float64 // afterwards
}

func TestBucketSteps(t *testing.T) {
	const ms = time.Millisecond
	cases := map[string]struct {
		rate  bucket.Rate
		steps []step
	}{
		"starts full": {
			bucket.Rate{PerSecond: 10},
			[]step{{0, 10, 0, true, 0}, {0, 1, 100 * ms, false, 0}, {100 * ms, 1, 0, true, 0}},
		},
		"refills to the burst and no further": {
			bucket.Rate{PerSecond: 10, BurstSeconds: 0.5},
			[]step{{0, 5, 0, true, 0}, {time.Hour, 5, 0, true, 0}, {time.Hour, 1, 100 * ms, false, 0}},
		},
		"the wait it names is exact": {
			bucket.Rate{PerSecond: 4, BurstSeconds: 1},
			[]step{{0, 4, 0, true, 0}, {0, 2, 500 * ms, false, 0}, {500*ms - 1, 2, 1, false, 1.999}, {500 * ms, 2, 0, true, 0}},
		},
		"a burst below one token holds one": {
			bucket.Rate{PerSecond: 0.5, BurstSeconds: 1},
			[]step{{0, 1, 0, true, 0}, {time.Second, 1, time.Second, false, 0.5}, {2 * time.Second, 1, 0, true, 0}},
		},
		"a clock that steps back mints nothing": {
			bucket.Rate{PerSecond: 10},
			[]step{{time.Second, 10, 0, true, 0}, {0, 1, 1100 * ms, false, -10}, {1100 * ms, 1, 0, true, 0}},
		},
		"a clock that jumped an hour and came back refuses for one burst, not for an hour": {
			bucket.Rate{PerSecond: 10},
			[]step{{time.Hour, 10, 0, true, 0}, {0, 1, 100 * ms, false, 0}, {100 * ms, 1, 0, true, 0}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := bucket.New(tc.rate, 0)
			for i, s := range tc.steps {
				wait, ok := b.Take(int64(s.at), s.n)
				if wait != s.wait || ok != s.ok {
					t.Fatalf("step %d: Take(%v, %v) = %v, %v; want %v, %v", i, s.at, s.n, wait, ok, s.wait, s.ok)
				}
				if got := b.Tokens(int64(s.at)); math.Abs(got-s.tokens) > 0.0011 {
					t.Errorf("step %d: Tokens = %v; want %v", i, got, s.tokens)
				}
			}
		})
	}
}

// A bucket of N tokens admits exactly N of 2,000 concurrent callers, at rates
// that divide a second and at rates that do not.
func TestBucketIsExactUnderConcurrency(t *testing.T) {
	for _, rate := range []float64{1, 3, 7, 100, 333, 1500, 1999, 300_000, 2_000_001} {
		b := bucket.New(bucket.Rate{PerSecond: rate, BurstSeconds: 1}, 0)
		want := int64(math.Min(rate, 2000*2000))
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 2000 {
			wg.Go(func() {
				for range 2000 {
					if _, ok := b.Take(0, 1); !ok {
						return
					}
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if got := passed.Load(); got != want {
			t.Errorf("rate %v: %d passed; want exactly %d", rate, got, want)
		}
	}
}

// Over any span, a bucket grants at most burst + rate*span tokens, whatever is
// taken, borrowed, refunded or reconfigured.
func TestBucketNeverOvergrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.1, 1e5).Draw(t, "rate")
		burst := rapid.Float64Range(0.01, 10).Draw(t, "burst seconds")
		b := bucket.New(bucket.Rate{PerSecond: rate, BurstSeconds: burst}, 0)
		depth := b.Burst()
		var now int64
		var granted float64
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, int64(time.Second)).Draw(t, "elapsed")
			n := float64(rapid.IntRange(1, 20).Draw(t, "n"))
			if _, ok := b.Take(now, n); ok {
				granted += n
				if rapid.IntRange(0, 9).Draw(t, "refund") == 0 {
					b.Refund(n)
					granted -= n
				}
			}
			if bound := depth + rate*float64(now)/1e9 + 0.01; granted > bound {
				t.Fatalf("granted %v tokens by %v; at most %v", granted, time.Duration(now), bound)
			}
			if tokens := b.Tokens(now); tokens > depth+1e-9 {
				t.Fatalf("holds %v tokens; the burst is %v", tokens, depth)
			}
		}
	})
}

// A borrower is told exactly when its debt is paid, and giving up pays it back.
func TestBucketBorrow(t *testing.T) {
	b := bucket.New(bucket.Rate{PerSecond: 10, BurstSeconds: 0.1, QueueDepth: 2}, 0)
	bill := bucket.Bill{{Bucket: b, Tokens: 1}}
	var last bucket.Receipt
	for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
		paid, wait, refused := bill.Pay(0, 0)
		if refused != nil || wait != want {
			t.Errorf("borrower %d waits %v, %v; want %v", i, wait, refused, want)
		}
		last = paid
	}
	if b.Waiting() != 2 {
		t.Errorf("%d wait; want 2", b.Waiting())
	}
	if _, _, refused := bill.Pay(0, 0); refused != b {
		t.Error("a third token was lent at a bound of two")
	}
	last.Refund()
	if _, wait, refused := bill.Pay(0, 0); refused != nil || wait != 200*time.Millisecond {
		t.Errorf("after a refund: %v, %v; want 200ms", wait, refused)
	}
}

// Changing the rate keeps the tokens that are there.
func TestBucketSetRate(t *testing.T) {
	b := bucket.New(bucket.Rate{PerSecond: 100}, 0)
	b.Take(0, 70)
	b.SetRate(bucket.Rate{PerSecond: 1000, BurstSeconds: 2}, 0)
	if got := b.Tokens(0); got != 30 {
		t.Errorf("Tokens = %v after raising the rate; want the 30 that were left", got)
	}
	b.SetRate(bucket.Rate{PerSecond: 10}, 0)
	if got := b.Tokens(0); got != 10 {
		t.Errorf("Tokens = %v after lowering the rate; want the new burst of 10", got)
	}
}

// The count lasts: a fast bucket still refuses after years, and does not panic
// on absurd times.
func TestBucketFarFuture(t *testing.T) {
	for _, rate := range []float64{0.001, 1, 1e6, 1e9} {
		b := bucket.New(bucket.Rate{PerSecond: rate}, 0)
		burst := b.Burst()
		for _, now := range []int64{int64(20 * 365 * 24 * time.Hour), math.MinInt64, -1} {
			b.Take(now, burst)
			if _, ok := b.Take(now, burst); ok && rate >= 1 {
				t.Errorf("rate %v at %d: a second burst passed", rate, now)
			}
		}
		b.Take(math.MaxInt64, 1)
	}
}

// Half a token costs half a token: a part of a cost is not free, and none is lost.
func TestBucketPartsOfTokens(t *testing.T) {
	b := bucket.New(bucket.Rate{PerSecond: 1, BurstSeconds: 3}, 0)
	for i := range 6 {
		if wait, ok := b.Take(0, 0.5); !ok {
			t.Fatalf("half a token, %d times taken, is not there: %v", i, wait)
		}
	}
	if wait, ok := b.Take(0, 0.25); ok || wait != 250*time.Millisecond {
		t.Errorf("a quarter of a token of an empty bucket: %v, %v; want 250ms", wait, ok)
	}
}
