package limiter_test

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// shared is a rate that two gates share.
var shared = limiter.Rate{PerSecond: 100, Sharers: 2}

// A bucket of a shared rate holds what it was leased, fills as the lease says, and
// stands still when that has run out.
func TestLeaseFillsABucket(t *testing.T) {
	second := int64(time.Second)
	b := limiter.NewBucket(shared, 0)
	if got := b.Tokens(0); got != 10 {
		t.Errorf("before its first lease it holds %v; want a fifth of a second of half the rate", got)
	}
	closed := shared
	closed.Sharing = &limiter.Sharing{}
	closed.Sharing.Close(true)
	if got := limiter.NewBucket(closed, 0).Tokens(second); got != 0 || closed.Sharing.Made() != 1 {
		t.Errorf("where nothing passes without a lease it holds %v, %d were made; want 0 and 1", got, closed.Sharing.Made())
	}
	b.Lease(0, limiter.Lease{Tokens: 3, PerSecond: 20, Until: second})
	for at, want := range map[int64]float64{0: 3, second / 2: 13, second: 23, 5 * second: 23} {
		if got := b.Tokens(at); math.Abs(got-want) > 1e-6 {
			t.Errorf("at %v it holds %v; want %v", time.Duration(at), got, want)
		}
	}
	for range 23 {
		if _, ok := b.Take(second, 1); !ok {
			t.Fatal("what was leased cannot be spent")
		}
	}
	if wait, ok := b.Take(second, 1); ok || wait <= 0 {
		t.Errorf("beyond the lease: ok %v, wait %v", ok, wait)
	}
	b.Flow(2*second, 50, 3*second, 100)
	if got := b.Tokens(3 * second); math.Abs(got-50) > 1e-6 {
		t.Errorf("a second at 50/s later it holds %v; want 50", got)
	}
}

// What was spent since a grant was asked for comes off it, so that a late answer
// grants nothing twice.
func TestLeaseTakesOffWhatWasSpentMeanwhile(t *testing.T) {
	b := limiter.NewBucket(shared, 0)
	asked := b.Spent()
	for range 4 {
		b.Take(0, 1)
	}
	b.Lease(0, limiter.Lease{Spent: asked, Tokens: 10})
	if got := b.Tokens(0); got != 6 {
		t.Errorf("of 10 tokens, 4 of which were spent while they were asked for, it holds %v; want 6", got)
	}
	b.Refund(2)
	if got := b.Spent(); got != 2 {
		t.Errorf("4 spent and 2 given back are %v; want 2", got)
	}
}

// The count of what was spent is exact, whatever leases come and go and whoever
// spends at that moment: it is what the group settles by. Leases are further apart
// than a decision takes, as they are in truth.
func TestSpentIsExact(t *testing.T) {
	b := limiter.NewBucket(limiter.Rate{PerSecond: 1e6, Sharers: 1}, 0)
	var sum atomic.Int64
	for range 200 {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 40 {
					if _, ok := b.Take(0, 1); ok {
						sum.Add(1)
					}
				}
			})
		}
		wg.Go(func() { b.Lease(0, limiter.Lease{Spent: b.Spent(), Tokens: 50}) })
		wg.Wait()
	}
	if spent := b.Spent(); spent != float64(sum.Load()) {
		t.Errorf("Spent() = %v after %d were spent", spent, sum.Load())
	}
}

// Over any run of leases no more is spent than was granted.
func TestNoMoreThanLeased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := limiter.NewBucket(shared, 0)
		now, granted, spent := int64(0), 10.0+50, 0.0 // before the first lease: for a second
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 400).Draw(t, "ms")) * int64(time.Millisecond)
			if rapid.Bool().Draw(t, "lease") {
				l := limiter.Lease{
					Spent: b.Spent(), Tokens: float64(rapid.IntRange(0, 20).Draw(t, "tokens")),
					PerSecond: float64(rapid.IntRange(0, 50).Draw(t, "flow")), Until: now + int64(200*time.Millisecond),
				}
				b.Lease(now, l)
				granted = b.Spent() + l.Tokens + l.PerSecond*0.2
			}
			for range rapid.IntRange(0, 30).Draw(t, "asked") {
				if _, ok := b.Take(now, 1); ok {
					spent++
				}
			}
			if spent > granted+1e-6 || math.Abs(b.Spent()-spent) > 1e-6 {
				t.Fatalf("%v are spent, %v by the count, of %v granted", spent, b.Spent(), granted)
			}
		}
	})
}

// A refusal by a shared rate names the fleet, counts as asked for, and tells that
// the bucket is dry, once per lease and without waiting.
func TestSharedRateRefuses(t *testing.T) {
	p := &limiter.Policy{Rate: shared, Default: limiter.PartitionPolicy{Rate: limiter.Rate{PerSecond: 5, Sharers: 1}}}
	g := limiter.New("orders", p, limiter.Options{Clock: &stoppedClock{}})
	dry := make(chan struct{}, 1)
	var names []string
	g.Shared(func(name, _ string, b *limiter.Bucket) bool {
		names = append(names, name)
		b.Lease(0, limiter.Lease{Spent: b.Spent(), Dry: dry})
		return true
	})
	if len(names) != 3 { // the ingress, default and overflow
		t.Fatalf("shared buckets are %q", names)
	}
	for range 3 {
		_, err := g.TryAdmit(0, limiter.Request{})
		var r *limiter.Rejection
		if !errors.As(err, &r) || r.Limit != labels.ByFleet || r.Reason != labels.RequestRate {
			t.Fatalf("TryAdmit = %v; want a refusal by the rate of the fleet", err)
		}
		if r.Hint(limiter.Request{}).RetryAfter <= 0 {
			t.Error("the refusal tells no wait")
		}
	}
	if len(dry) != 1 {
		t.Error("nobody was told that the bucket is dry")
	}
	g.Shared(func(name, _ string, b *limiter.Bucket) bool {
		if missed, _ := b.Unmet(); missed != map[string]float64{"": 3}[name] {
			t.Errorf("bucket %q missed %v; want the ingress's alone to miss 3", name, missed)
		}
		return true
	})
}

// Deciding by a lease allocates nothing.
func TestLeasedDecisionAllocatesNothing(t *testing.T) {
	g := limiter.New("orders", &limiter.Policy{Rate: shared}, limiter.Options{})
	g.Shared(func(_, _ string, b *limiter.Bucket) bool {
		b.Lease(g.Now(), limiter.Lease{Tokens: 1e9, Dry: make(chan struct{}, 1)})
		return true
	})
	if n := testing.AllocsPerRun(1000, func() {
		p, err := g.TryAdmit(g.Now(), limiter.Request{})
		if err != nil {
			t.Fatal(err)
		}
		p.End(limiter.Success)
	}); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

// A rate that becomes shared, or stops to be, keeps no more than it had.
func TestRateBecomesShared(t *testing.T) {
	b := limiter.NewBucket(limiter.Rate{PerSecond: 100}, 0)
	b.SetRate(shared, 0)
	if got := b.Tokens(0); got > 10 {
		t.Errorf("a full bucket of 100/s holds %v when two gates share it; want 10 at most", got)
	}
	b.SetRate(limiter.Rate{PerSecond: 100}, 0)
	if got := b.Tokens(0); got > 10 {
		t.Errorf("and %v when they do not any more; want 10 at most", got)
	}
}
