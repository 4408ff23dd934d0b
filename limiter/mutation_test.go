package limiter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// The cases below were found by scripts/mutants.sh: the gate could be changed so
// that they no longer held, and no test noticed.

// witnessed is a limit that notes what it is told.
type witnessed struct {
	limit    int
	observed []bool // dropped
}

func (w *witnessed) Current() int { return w.limit }
func (w *witnessed) Observe(_ int64, _ time.Duration, _ int, dropped bool) {
	w.observed = append(w.observed, dropped)
}

// ticking is a clock that moves with each look, so that latencies are positive.
type ticking struct{ now int64 }

func (c *ticking) Now() int64  { c.now += int64(time.Millisecond); return c.now }
func (*ticking) Trusted() bool { return true }
func (*ticking) Epoch() uint32 { return 0 }

func offer(t *testing.T, g *limiter.Gate, req limiter.Request) limiter.Permit {
	t.Helper()
	permit, ticket, err := g.Offer(g.Now(), req)
	if err != nil || ticket != nil {
		t.Fatalf("Offer(%+v) = ticket %v, %v; want a permit", req, ticket, err)
	}
	return permit
}

// A limit learns from drops that they were drops.
func TestLimitIsToldOfDrops(t *testing.T) {
	l := &witnessed{limit: 10}
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return l }}}, limiter.Options{Clock: &ticking{}})
	for _, o := range []limiter.Outcome{limiter.Success, limiter.Dropped, limiter.Ignored} {
		permit := offer(t, g, limiter.Request{})
		permit.End(o)
	}
	if len(l.observed) != 2 || l.observed[0] || !l.observed[1] {
		t.Errorf("the limit was told dropped = %v; want false, true, and nothing of what is ignored", l.observed)
	}
}

// Whatever a limit says, one request at a time is tried, or nothing would ever
// be learned again.
func TestLimitOfZeroLetsOneThrough(t *testing.T) {
	l := &witnessed{}
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return l }}}, limiter.Options{Clock: &ticking{}})
	permit := offer(t, g, limiter.Request{})
	if _, _, err := g.Offer(g.Now(), limiter.Request{MaxWait: -1}); err == nil {
		t.Error("a second was let through")
	}
	permit.End(limiter.Success)
}

// Who finds the queue full after the token was paid has the token back.
func TestFullQueueGivesTheTokenBack(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 0.001, BurstSeconds: 5000},
		Default: limiter.PartitionPolicy{NewLimit: newFixed(1), QueueDepth: 1, MaxWait: time.Minute},
	}, limiter.Options{Clock: &ticking{}})
	held := offer(t, g, limiter.Request{})
	if _, ticket, err := g.Offer(g.Now(), limiter.Request{}); err != nil || ticket == nil {
		t.Fatalf("the second got ticket %v, %v; want a ticket", ticket, err)
	}
	for range 10 {
		_, _, err := g.Offer(g.Now(), limiter.Request{})
		if rej, ok := errors.AsType[*limiter.Rejection](err); !ok || rej.Reason != labels.ConcurrencyLimit {
			t.Fatalf("the third got %v; want concurrency_limit: its tokens are there", err)
		}
	}
	held.End(limiter.Success)
}

// A token and a half is not one token.
func TestPartsOfATokenCount(t *testing.T) {
	b := limiter.NewBucket(limiter.Rate{PerSecond: 1, BurstSeconds: 2}, 0)
	if _, ok := b.Take(0, 1.5); !ok {
		t.Fatal("1.5 of 2 tokens were refused")
	}
	if _, ok := b.Take(0, 1.5); ok {
		t.Error("1.5 of half a token were given")
	}
}
