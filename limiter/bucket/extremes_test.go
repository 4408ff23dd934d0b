package bucket_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/limiter/bucket"
)

// checkSpend spends one token and requires a level and a wait that can be true. The
// level is read first: with one that overflowed, spending never returned.
func checkSpend(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, b *bucket.Bucket, now int64,
) {
	t.Helper()
	const most = 1 << 61
	if got := b.Tokens(now); !(got >= -most && got <= most) {
		t.Fatalf("at %d it holds %v tokens", now, got)
	}
	if wait, _ := b.Take(now, 1); wait < 0 {
		t.Fatalf("at %d the wait is %v", now, wait)
	}
	if wait := b.Wait(now, 1); wait < 0 {
		t.Fatalf("at %d Wait = %v", now, wait)
	}
}

// A reload that lowers a rate and shares it keeps at most the new burst. The old
// tokens in the new, finer units overflowed, and every request of the gate spun.
func TestLargeBucketBecomesShared(t *testing.T) {
	b := bucket.New(bucket.Rate{PerSecond: 1e6, BurstSeconds: 86400}, 0)
	b.SetRate(bucket.Rate{PerSecond: 5, Sharers: 1}, 0)
	if got := b.Tokens(0); got != 1 {
		t.Fatalf("before its first lease it holds %v tokens; want 1", got)
	}
	checkSpend(t, b, 0)
}

// No grant makes a bucket spin, or tell a wait that is negative.
func TestAnyLease(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 9.3e9, 1e18, -1e18, 1 << 60, 0, 1}
	number := rapid.OneOf(rapid.SampledFrom(odd), rapid.Float64())
	instant := rapid.OneOf(rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, int64(time.Hour), 1 << 60, math.MaxInt64}), rapid.Int64())
	rate := rapid.Custom(func(t *rapid.T) bucket.Rate {
		return bucket.Rate{
			PerSecond: rapid.OneOf(rapid.SampledFrom([]float64{0.001, 0.5, 1, 5, 1e6, 1e9, math.MaxFloat64}), rapid.Float64Range(1e-9, 1e12)).Draw(t, "rate"), BurstSeconds: number.Draw(t, "burst seconds"),
			QueueDepth: rapid.SampledFrom([]int{0, 1, math.MaxInt}).Draw(t, "queue"), Sharers: rapid.IntRange(0, 3).Draw(t, "sharers"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")
		b := bucket.New(rate.Draw(t, "rate"), now)
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			now += rapid.Int64Range(0, int64(time.Hour)).Draw(t, "elapsed")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				b.SetRate(rate.Draw(t, "next"), now)
			case 1:
				b.Flow(now, number.Draw(t, "per second"), instant.Draw(t, "until"), number.Draw(t, "most"))
			case 2:
				b.Spend(now, number.Draw(t, "charge"))
			default:
				b.Lease(now, bucket.Lease{
					Spent: number.Draw(t, "spent"), Tokens: number.Draw(t, "tokens"), PerSecond: number.Draw(t, "per second"),
					Until: instant.Draw(t, "until"), Low: number.Draw(t, "low"),
				})
			}
			checkSpend(t, b, now)
			checkSpend(t, b, now+int64(time.Hour))
		}
	})
}

// A charge of any size leaves a debt, also in a bucket that is in debt already; one
// that overflowed filled it.
func TestAnyChargeLeavesADebt(t *testing.T) {
	for _, charge := range []float64{1, 9.2e9, 9.3e9, 1e10, 1e12, 1e18, math.MaxFloat64, math.Inf(1)} {
		b := bucket.New(bucket.Rate{PerSecond: 1, BurstSeconds: 3}, 0)
		b.Spend(0, 4)
		b.Spend(0, charge)
		if got, want := b.Tokens(0), math.Max(-1-charge, -3); got != want {
			t.Errorf("after a charge of %v it holds %v; want %v", charge, got, want)
		}
	}
}

// A shared rate that is reloaded to a smaller burst keeps at most that burst.
func TestSharedRateWithASmallerBurst(t *testing.T) {
	b := bucket.New(bucket.Rate{PerSecond: 100, Sharers: 2}, 0)
	b.Lease(0, bucket.Lease{Tokens: 80})
	b.SetRate(bucket.Rate{PerSecond: 100, BurstSeconds: 2, Sharers: 2}, 0)
	if got := b.Tokens(0); got != 80 {
		t.Errorf("with a larger burst it holds %v; want the 80 that were leased", got)
	}
	b.SetRate(bucket.Rate{PerSecond: 5, Sharers: 2}, 0)
	if got := b.Tokens(0); got != 5 {
		t.Errorf("with a burst of 5 it holds %v", got)
	}
}

// Leases, rates and counts change while others spend: the race detector sees a state
// without its lock. Nothing that was granted is spent twice.
func TestSharedBucketConcurrently(t *testing.T) {
	rate := bucket.Rate{PerSecond: 1000, Sharers: 2}
	b := bucket.New(rate, 0)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 100 {
				b.Lease(0, bucket.Lease{Spent: b.Spent(), Tokens: 2})
				b.Flow(0, 0, 0, 2)
				b.SetRate(rate, 0)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range 1000 {
				if b.Take(0, 1); b.Spent() < 0 {
					t.Error("less than nothing is spent")
				}
			}
		})
	}
	wg.Wait()
	if got := b.Tokens(0); got > 2 {
		t.Errorf("it holds %v; want at most the 2 of a lease", got)
	}
}
