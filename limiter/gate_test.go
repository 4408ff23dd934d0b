package limiter_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// fixed is a limit that tests can move.
type fixed struct{ n atomic.Int64 }

func newFixed(n int) func() limiter.Limit {
	return func() limiter.Limit {
		f := &fixed{}
		f.n.Store(int64(n))
		return f
	}
}

func (f *fixed) Current() int                          { return int(f.n.Load()) }
func (*fixed) Observe(int64, time.Duration, int, bool) {}

// reason returns why err refuses, "" for nil.
func reason(t *testing.T, err error) labels.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var rej *limiter.Rejection
	if !errors.As(err, &rej) || !errors.Is(err, limiter.ErrRejected) {
		t.Fatalf("err = %v; want a *Rejection", err)
	}
	return rej.Reason
}

func TestAdmitRefusesAtTheLimit(t *testing.T) {
	g := limiter.New("orders", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(2)}}, limiter.Options{})
	a, errA := g.Admit(t.Context(), limiter.Request{Key: "a"})
	_, errB := g.Admit(t.Context(), limiter.Request{Key: "a"})
	_, errC := g.Admit(t.Context(), limiter.Request{Key: "a"})
	if errA != nil || errB != nil || reason(t, errC) != labels.ConcurrencyLimit {
		t.Fatalf("admitted %v, %v, %v; want two permits and a refusal", errA, errB, errC)
	}
	if _, err := g.Admit(t.Context(), limiter.Request{Key: "b"}); err != nil {
		t.Errorf("another key: %v; partitions must not share a limit", err)
	}
	a.End(limiter.Success)
	if _, err := g.Admit(t.Context(), limiter.Request{Key: "a"}); err != nil {
		t.Errorf("after End: %v", err)
	}
}

// A limit beyond what a partition can count is cut to that, and counts stay
// right.
func TestLimitIsCutToWhatIsCounted(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(math.MaxInt)}}, limiter.Options{})
	const most = 1<<20 - 1
	held := make([]limiter.Permit, most)
	for i := range held {
		var err error
		if held[i], err = g.TryAdmit(0, limiter.Request{}); err != nil {
			t.Fatalf("permit %d: %v", i+1, err)
		}
	}
	if _, err := g.TryAdmit(0, limiter.Request{}); reason(t, err) != labels.ConcurrencyLimit {
		t.Errorf("permit %d: %v; want a refusal", most+1, err)
	}
	p := g.Status().Partitions[0]
	if p.Limit != most || p.InFlight != most || p.Counts.Admitted != most {
		t.Errorf("limit %d, in flight %d, admitted %d; want %d of each", p.Limit, p.InFlight, p.Counts.Admitted, most)
	}
	for i := range held {
		held[i].End(limiter.Success)
	}
	if p := g.Status().Partitions[0]; p.InFlight != 0 || p.Counts.Admitted != most {
		t.Errorf("after all ended: in flight %d, admitted %d; want 0 and %d", p.InFlight, p.Counts.Admitted, most)
	}
}

// A permit that is ended three times frees one place. The reference Java
// library and its Go port count each ending: a limit of 1 then admits several.
func TestPermitEndsOnce(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(1)}}, limiter.Options{})
	p, _ := g.Admit(t.Context(), limiter.Request{})
	for range 3 {
		p.End(limiter.Success)
	}
	if _, err := g.Admit(t.Context(), limiter.Request{}); err != nil {
		t.Fatalf("first after End: %v", err)
	}
	if _, err := g.Admit(t.Context(), limiter.Request{}); reason(t, err) != labels.ConcurrencyLimit {
		t.Errorf("second after three Ends: %v; want a refusal at limit 1", err)
	}
}

// A token that bought nothing goes back.
func TestTokenIsRefundedWhenThePermitIsRefused(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 10},
		Default: limiter.PartitionPolicy{NewLimit: newFixed(1), Rate: limiter.Rate{PerSecond: 5}},
	}, limiter.Options{Clock: &stoppedClock{}})
	for range 4 {
		g.Admit(t.Context(), limiter.Request{Key: "a"})
	}
	s := g.Status()
	if s.Bucket.Tokens != 9 {
		t.Errorf("gate holds %v tokens; want 9 of 10", s.Bucket.Tokens)
	}
	for _, p := range s.Partitions {
		if p.Name == "a" && p.Bucket.Tokens != 4 {
			t.Errorf("partition holds %v tokens; want 4 of 5", p.Bucket.Tokens)
		}
	}
}

// When the second bucket refuses, the first gets its tokens back.
func TestBucketsAreSpentTogether(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 100},
		Default: limiter.PartitionPolicy{NewLimit: newFixed(100), Rate: limiter.Rate{PerSecond: 2}},
	}, limiter.Options{Clock: &stoppedClock{}})
	var refused int
	for range 10 {
		if _, err := g.Admit(t.Context(), limiter.Request{Key: "a"}); reason(t, err) == labels.RequestRate {
			refused++
		}
	}
	if s := g.Status(); refused != 8 || s.Bucket.Tokens != 98 {
		t.Errorf("%d refused, gate holds %v tokens; want 8 and 98", refused, s.Bucket.Tokens)
	}
}

func TestCostAboveTheBurstIsNeverRetryable(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Rate: limiter.Rate{PerSecond: 10}}, limiter.Options{})
	_, err := g.Admit(t.Context(), limiter.Request{Cost: 11})
	var rej *limiter.Rejection
	if !errors.As(err, &rej) || rej.Reason != labels.CostExceedsBurst {
		t.Fatalf("err = %v; want cost_exceeds_burst", err)
	}
	if d := rej.Document(limiter.Request{Cost: 11}, true); d.RetryableOverload() || d.RetryAfterMS != 0 {
		t.Errorf("document %+v invites a retry that cannot succeed", d)
	}
}

// stoppedClock stands still unless moved.
type stoppedClock struct {
	now      atomic.Int64
	epoch    atomic.Uint32
	distrust atomic.Bool
}

func (c *stoppedClock) Now() int64    { return c.now.Load() }
func (c *stoppedClock) Trusted() bool { return !c.distrust.Load() }
func (c *stoppedClock) Epoch() uint32 { return c.epoch.Load() }

// While the clock cannot be trusted every limit is its fallback.
func TestFallbackWhileTheClockLies(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(100), Fallback: 3}}, limiter.Options{Clock: clock})
	clock.distrust.Store(true)
	var held int
	for range 10 {
		if _, err := g.Admit(t.Context(), limiter.Request{}); err == nil {
			held++
		}
	}
	if s := g.Status(); held != 3 || !s.Fallback || s.Labels[0].Limit != 3 {
		t.Errorf("%d admitted, status %+v; want the fallback of 3", held, s)
	}
	clock.distrust.Store(false)
	if _, err := g.Admit(t.Context(), limiter.Request{}); err != nil {
		t.Errorf("once trusted again: %v", err)
	}
}

// recordingLimit notes what it is fed.
type recordingLimit struct {
	fixed
	mu   sync.Mutex
	seen []time.Duration
}

func (r *recordingLimit) Observe(_ int64, latency time.Duration, _ int, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, latency)
}

// A latency that means nothing is not fed, and the permit ends all the same.
func TestLatenciesThatMeanNothingAreDiscarded(t *testing.T) {
	clock, limit := &stoppedClock{}, &recordingLimit{}
	limit.n.Store(1)
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return limit }}}, limiter.Options{Clock: clock})
	try := func(move func(), o limiter.Outcome) {
		t.Helper()
		p, err := g.Admit(t.Context(), limiter.Request{})
		if err != nil {
			t.Fatalf("a permit was lost: %v", err)
		}
		move()
		p.End(o)
	}
	try(func() { clock.now.Add(5) }, limiter.Success)
	try(func() {}, limiter.Success)                                        // equal readings
	try(func() { clock.now.Add(-3) }, limiter.Success)                     // backwards
	try(func() { clock.now.Add(7); clock.epoch.Add(1) }, limiter.Success)  // suspended
	try(func() { clock.now.Add(int64(time.Hour)) }, limiter.Success)       // longer than any limit is told
	try(func() { clock.now.Add(9) }, limiter.Ignored)                      // says nothing
	try(func() { clock.now.Add(int64(2 * time.Minute)) }, limiter.Dropped) // a long timeout is a drop
	want := []time.Duration{5, time.Minute, time.Minute}
	if !slices.Equal(limit.seen, want) {
		t.Errorf("fed %v; want %v", limit.seen, want)
	}
	d := g.Status().Labels[0].Counts.Discarded
	if d["clock"] != 2 || d["epoch"] != 1 || len(d) != 2 {
		t.Errorf("discarded %v; want clock 2, epoch 1, and no other", d)
	}
}

// Who waits gets the permit at the moment it is released, oldest first.
func TestQueueWaitsForAPermit(t *testing.T) {
	cases := map[string]struct {
		holdFor time.Duration
		maxWait time.Duration
		request time.Duration
		want    labels.Reason
		wantAt  time.Duration
	}{
		"released in time":          {30 * time.Millisecond, 100 * time.Millisecond, 0, "", 30 * time.Millisecond},
		"waited long enough":        {time.Second, 100 * time.Millisecond, 0, labels.QueueTimeout, 100 * time.Millisecond},
		"bounded by the request":    {time.Second, 100 * time.Millisecond, 20 * time.Millisecond, labels.QueueTimeout, 20 * time.Millisecond},
		"the request must not wait": {time.Second, 100 * time.Millisecond, -1, labels.ConcurrencyLimit, 0},
		"the default bound is 1 s":  {2 * time.Second, 0, 0, labels.QueueTimeout, time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{
					NewLimit: newFixed(1), QueueDepth: 1, MaxWait: tc.maxWait,
				}}, limiter.Options{})
				first, _ := g.Admit(t.Context(), limiter.Request{})
				time.AfterFunc(tc.holdFor, func() { first.End(limiter.Success) })
				start := time.Now()
				second, err := g.Admit(t.Context(), limiter.Request{MaxWait: tc.request})
				if got := time.Since(start); reason(t, err) != tc.want || got != tc.wantAt {
					t.Errorf("Admit = %v after %v; want %q after exactly %v", err, got, tc.want, tc.wantAt)
				}
				second.End(limiter.Success)
				time.Sleep(3 * time.Second)
				if s := g.Status(); s.InFlight != 0 || s.Queued != 0 {
					t.Errorf("left behind: %d in flight, %d queued", s.InFlight, s.Queued)
				}
			})
		})
	}
}

func TestQueueIsFIFOAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(1), QueueDepth: 3, MaxWait: time.Minute}}, limiter.Options{})
		first, _ := g.Admit(t.Context(), limiter.Request{})
		var order []int
		for i := range 3 {
			go func() {
				p, err := g.Admit(t.Context(), limiter.Request{})
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
				}
				order = append(order, i)
				time.Sleep(time.Millisecond)
				p.End(limiter.Success)
			}()
			synctest.Wait()
		}
		if _, err := g.Admit(t.Context(), limiter.Request{}); reason(t, err) != labels.ConcurrencyLimit {
			t.Errorf("a fourth waiter: %v; want a refusal", err)
		}
		first.End(limiter.Success)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("order %v; want oldest first", order)
		}
	})
}

// A request borrows a token, sleeps its debt to the nanosecond, and gives it
// back when its caller goes away.
func TestRateQueueBorrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New("g", &limiter.Policy{Rate: limiter.Rate{PerSecond: 10, BurstSeconds: 0.1, QueueDepth: 2}}, limiter.Options{})
		start := time.Now()
		var wg sync.WaitGroup
		for _, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
			wg.Go(func() {
				if _, err := g.Admit(t.Context(), limiter.Request{}); err != nil || time.Since(start) != want {
					t.Errorf("admitted with %v after %v; want exactly %v", err, time.Since(start), want)
				}
			})
			synctest.Wait()
		}
		if _, err := g.Admit(t.Context(), limiter.Request{}); reason(t, err) != labels.RequestRate {
			t.Errorf("beyond the queue: %v; want request_rate", err)
		}
		wg.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := g.Admit(ctx, limiter.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v; want the caller's deadline", err)
		}
		if got := g.Status().Bucket; got.Tokens < 0 || got.Waiting != 0 {
			t.Errorf("bucket %+v; the token of a caller that went away must come back", got)
		}
	})
}

// Shadow mode decides and counts, and refuses nobody.
func TestShadowCountsAndNeverRefuses(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Mode: limiter.Shadow, Rate: limiter.Rate{PerSecond: 4}, Default: limiter.PartitionPolicy{NewLimit: newFixed(2)}},
		limiter.Options{Clock: &stoppedClock{}})
	for _, cost := range []float64{1, 1, 1, 1, 3, 3} { // tokens of those beyond the limit stay
		if _, err := g.Admit(t.Context(), limiter.Request{Cost: cost}); err != nil {
			t.Fatalf("shadow refused: %v", err)
		}
	}
	c := g.Status().Labels[0].Counts
	if c.WouldReject[labels.ConcurrencyLimit] != 2 || c.WouldReject[labels.RequestRate] != 2 || c.Admitted != 6 {
		t.Errorf("counts %+v; want 2 beyond the limit, 2 beyond the rate, 6 admitted", c)
	}
}

// Exempt requests pass limits and drain, and are counted.
func TestExemptPassesAndIsCounted(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(1)}}, limiter.Options{})
	g.Admit(t.Context(), limiter.Request{})
	g.Drain()
	p, err := g.Admit(t.Context(), limiter.Request{Exempt: true})
	if err != nil {
		t.Fatalf("exempt: %v", err)
	}
	if _, err := g.Admit(t.Context(), limiter.Request{}); reason(t, err) != labels.Draining {
		t.Errorf("while draining: %v; want draining", err)
	}
	if s := g.Status(); s.InFlight != 2 || s.Labels[0].Counts.Exempted != 1 {
		t.Errorf("status %+v; want 2 in flight, 1 exempted", s)
	}
	p.End(limiter.Success)
}

// A reload keeps permits in flight and, with the same signature, the limit.
func TestApplyKeepsPermitsAndLimits(t *testing.T) {
	policy := func(sig string, n int) *limiter.Policy {
		return &limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "checkout", Match: "co*", NewLimit: newFixed(n), Signature: sig}}}
	}
	g := limiter.New("g", policy("a", 2), limiter.Options{})
	first, _ := g.Admit(t.Context(), limiter.Request{Key: "co-1"})
	g.Admit(t.Context(), limiter.Request{Key: "co-2"})
	g.Apply(policy("a", 50)) // same signature: the limit that exists stays
	if _, err := g.Admit(t.Context(), limiter.Request{Key: "co-3"}); reason(t, err) != labels.ConcurrencyLimit {
		t.Errorf("after a reload: %v; permits in flight were forgotten", err)
	}
	g.Apply(policy("b", 3))
	if _, err := g.Admit(t.Context(), limiter.Request{Key: "co-3"}); err != nil {
		t.Errorf("after raising the limit: %v", err)
	}
	first.End(limiter.Success)
	if got := g.Status().Labels[0]; got.InFlight != 2 || got.Label != "checkout" {
		t.Errorf("row %+v; want 2 in flight in checkout", got)
	}
}

// The queue of borrowers is as long as the policy says, however many ask at
// once.
func TestRateQueueIsExact(t *testing.T) {
	const depth = 5
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New("g", &limiter.Policy{
			Rate:    limiter.Rate{PerSecond: 10, BurstSeconds: 0.1, QueueDepth: depth},
			Default: limiter.PartitionPolicy{NewLimit: newFixed(1000)},
		}, limiter.Options{})
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range 400 {
			wg.Go(func() {
				if _, err := g.Admit(t.Context(), limiter.Request{}); err != nil {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if got := g.Status().Bucket.Waiting; got != depth {
			t.Errorf("%d wait; want exactly %d", got, depth)
		}
		wg.Wait()
		if want := int64(400 - 1 - depth); refused.Load() != want {
			t.Errorf("%d refused; want %d", refused.Load(), want)
		}
		if b := g.Status().Bucket; b.Waiting != 0 {
			t.Errorf("%d places are taken after all have gone", b.Waiting)
		}
	})
}
