package limiter_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// departure is what a limit was told by Left.
type departure struct {
	Now      int64
	Age      time.Duration
	InFlight int
}

// curious is a limit that asks for everything there is.
type curious struct {
	fixed
	mu      sync.Mutex
	left    []departure
	watched int
	demand  func() (offered, refused uint64)
}

func (c *curious) Left(now int64, age time.Duration, inFlight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, departure{now, age, inFlight})
}

func (c *curious) Watch(demand func() (offered, refused uint64)) {
	c.watched++
	c.demand = demand
}

func (*curious) Why() string { return "curiosity" }

// watching returns a gate with one curious limit of n.
func watching(n int64, clock limiter.Clock) (*limiter.Gate, *curious) {
	limit := &curious{}
	limit.n.Store(n)
	policy := limiter.PartitionPolicy{Name: "a", NewLimit: func() limiter.Limit { return limit }, Signature: "curious"}
	return limiter.New("g", &limiter.Policy{Named: []limiter.PartitionPolicy{policy}}, limiter.Options{Clock: clock}), limit
}

// Callers that give up made both limits blind: the permit ended with the
// caller, while the backend went on with the work. Now it is held until the
// backend is done; the departure is told as "at least this slow", once.
func TestLeaveKeepsThePermit(t *testing.T) {
	clock := &stoppedClock{}
	g, limit := watching(4, clock)
	a, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	b, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	clock.now.Store(30)
	b.Leave()
	b.Leave()
	p := g.Status().Partitions[0]
	if p.InFlight != 2 || p.Abandoned != 1 || p.Counts.Abandoned != 1 || p.Counts.Wasted != 0 || p.Why != "curiosity" {
		t.Errorf("after a caller left: %+v; want 2 in flight, one of them abandoned", p)
	}
	if diff := cmp.Diff([]departure{{30, 30, 2}}, limit.left); diff != "" {
		t.Errorf("the limit was told (-want +got):\n%s", diff)
	}
	b.End(limiter.Success)
	b.Leave()
	a.End(limiter.Success)
	a.Leave()
	p = g.Status().Partitions[0]
	if p.Counts.Unheard != 1 {
		t.Errorf("%d were answered well to nobody; want 1 of the 2 successes", p.Counts.Unheard)
	}
	if p.InFlight != 0 || p.Abandoned != 0 || p.Counts.Abandoned != 1 || p.Counts.Wasted != 1 || p.WastedShare != 0.5 || len(limit.left) != 1 {
		t.Errorf("after all ended: %+v; want half of the work wasted, and nothing left", p)
	}
}

// A departure that cannot be dated teaches nothing, as any latency.
func TestLeaveTeachesOnlyWhatCanBeMeasured(t *testing.T) {
	for name, disturb := range map[string]func(*stoppedClock){
		"no time passed": func(*stoppedClock) {},
		"suspended":      func(c *stoppedClock) { c.now.Add(5); c.epoch.Add(1) },
		"distrusted":     func(c *stoppedClock) { c.now.Add(5); c.distrust.Store(true) },
	} {
		clock := &stoppedClock{}
		g, limit := watching(4, clock)
		p, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
		disturb(clock)
		p.Leave()
		if len(limit.left) != 0 || g.Status().Partitions[0].Abandoned != 1 {
			t.Errorf("%s: the limit was told %v; want nothing, and the departure counted", name, limit.left)
		}
	}
	var zero limiter.Permit
	zero.Leave()
	zero.LeaveSampled(1)
}

// The time that a client took to send its request is none of the backend's: the limit
// is told of the age that was measured, and of none that was not.
func TestLeaveSampled(t *testing.T) {
	clock := &stoppedClock{}
	g, limit := watching(4, clock)
	clock.now.Store(30)
	for _, age := range []time.Duration{0, 7} {
		p, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
		p.LeaveSampled(age)
		p.LeaveSampled(age + 1)
	}
	if diff := cmp.Diff([]departure{{30, 7, 2}}, limit.left); diff != "" || g.Status().Partitions[0].Abandoned != 2 {
		t.Errorf("the limit was told (-want +got):\n%s", diff)
	}
}

// More than half of a limit is never held for nobody while others ask: they are
// refused until the backend has caught up, at every size of the limit.
func TestAbandonedWorkIsBounded(t *testing.T) {
	for limit, most := range map[int]int{1: 1, 2: 1, 3: 1, 10: 5} {
		g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(limit)}}, limiter.Options{})
		var held []*limiter.Permit
		for {
			p, err := g.TryAdmit(g.Now(), limiter.Request{})
			if err != nil {
				if got := reason(t, err); got != labels.ConcurrencyLimit {
					t.Fatalf("limit %d: refused for %s; want concurrency_limit", limit, got)
				}
				break
			}
			p.Leave()
			held = append(held, &p)
		}
		if want := min(most+1, limit); len(held) != want {
			t.Errorf("limit %d: %d passed; want %d, the last one on credit of the ones before", limit, len(held), want)
		}
		held[0].End(limiter.Ignored)
		if limit > 1 {
			held[len(held)-1].End(limiter.Ignored)
		}
		if _, err := g.TryAdmit(g.Now(), limiter.Request{}); err != nil {
			t.Errorf("limit %d: %v once the backend caught up", limit, err)
		}
	}
}

// Whoever comes first, a caller that leaves or a backend that answers, each is
// counted once and the permit comes back once.
func TestLeaveRacesWithEnd(t *testing.T) {
	g, _ := watching(4, nil)
	for range 2000 {
		p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "a"})
		if err != nil {
			t.Fatalf("a permit was lost: %v", err)
		}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if i%2 == 0 {
					p.Leave()
				} else {
					p.End(limiter.Success)
				}
			})
		}
		wg.Wait()
	}
	s := g.Status().Partitions[0]
	if s.InFlight != 0 || s.Abandoned != 0 || s.Counts.Abandoned != s.Counts.Wasted {
		t.Errorf("after all: %d in flight, %d abandoned, %d left and %d wasted; want none, and as many", s.InFlight, s.Abandoned, s.Counts.Abandoned, s.Counts.Wasted)
	}
}

// A limit can ask how much is asked of it. What a rate refuses, never asked.
func TestDemand(t *testing.T) {
	clock := &stoppedClock{}
	limit := &curious{}
	limit.n.Store(2)
	policy := &limiter.Policy{Rate: limiter.Rate{PerSecond: 2}, Named: []limiter.PartitionPolicy{
		{Name: "a", NewLimit: func() limiter.Limit { return limit }, Signature: "c"},
	}}
	g := limiter.New("g", policy, limiter.Options{Clock: clock})
	ask := func(offered, refused uint64) {
		t.Helper()
		if o, r := limit.demand(); o != offered || r != refused {
			t.Errorf("demand = %d, %d; want %d offered, %d refused", o, r, offered, refused)
		}
	}
	for range 2 { // and no token is left
		g.TryAdmit(0, limiter.Request{Key: "a"})
	}
	g.TryAdmit(0, limiter.Request{Key: "a"})
	ask(2, 0)
	clock.now.Store(int64(time.Second))
	g.TryAdmit(int64(time.Second), limiter.Request{Key: "a"})
	ask(3, 1)
	policy.Mode = limiter.Shadow
	g.Apply(policy)
	g.TryAdmit(int64(time.Second), limiter.Request{Key: "a"})
	ask(4, 2)
	if limit.watched != 1 {
		t.Errorf("a reload that kept the limit called Watch again")
	}
}

// A refusal says whose limit it was.
func TestRefusalNamesTheLimit(t *testing.T) {
	fixed5 := limiter.PartitionPolicy{NewLimit: newFixed(5)}
	slow := limiter.Rate{PerSecond: 0.001}
	for name, tc := range map[string]struct {
		policy limiter.Policy
		held   int
		req    limiter.Request
		want   limiter.Cause
	}{
		"partition's permits": {limiter.Policy{Default: fixed5}, 5, limiter.Request{}, limiter.Cause{Reason: labels.ConcurrencyLimit, Limit: labels.ByPartition}},
		"total":               {limiter.Policy{Default: fixed5, Total: 3}, 3, limiter.Request{}, limiter.Cause{Reason: labels.ConcurrencyLimit, Limit: labels.ByTotal}},
		"total as large as the partition": {
			limiter.Policy{Default: fixed5, Total: 5}, 5, limiter.Request{Key: "b"}, limiter.Cause{Reason: labels.ConcurrencyLimit, Limit: labels.ByTotal},
		},
		"ingress's rate":   {limiter.Policy{Rate: slow}, 1, limiter.Request{}, limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByIngress}},
		"partition's rate": {limiter.Policy{Default: limiter.PartitionPolicy{Rate: slow}}, 1, limiter.Request{}, limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByPartition}},
		"ingress's burst":  {limiter.Policy{Rate: slow}, 0, limiter.Request{Cost: 2}, limiter.Cause{Reason: labels.CostExceedsBurst, Limit: labels.ByIngress}},
		"partition's burst": {
			limiter.Policy{Default: limiter.PartitionPolicy{Rate: slow}}, 0, limiter.Request{Cost: 2}, limiter.Cause{Reason: labels.CostExceedsBurst, Limit: labels.ByPartition},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []limiter.Mode{limiter.Enforce, limiter.Shadow} {
				tc.policy.Mode = mode
				g := limiter.New("g", &tc.policy, limiter.Options{Clock: &stoppedClock{}})
				for range tc.held {
					g.TryAdmit(0, limiter.Request{})
				}
				_, err := g.TryAdmit(0, tc.req)
				var said map[limiter.Cause]uint64
				for _, l := range g.Status().Labels {
					said = l.Counts.RejectedBy
					if mode == limiter.Shadow {
						said = l.Counts.WouldRejectBy
					}
					if said != nil {
						break
					}
				}
				if diff := cmp.Diff(map[limiter.Cause]uint64{tc.want: 1}, said); diff != "" {
					t.Errorf("%v: counted (-want +got):\n%s", mode, diff)
				}
				if rej, ok := err.(*limiter.Rejection); mode == limiter.Enforce && (!ok || rej.Limit != tc.want.Limit || rej.Document(limiter.Request{}, false).Limit != tc.want.Limit) { //nolint:errorlint // the gate returns it bare
					t.Errorf("refused with %v; want %v", err, tc.want)
				}
			}
		})
	}
}

// A stall is contended when somebody else goes without a permit because of it, and
// excessive beyond half of the limit.
func TestStall(t *testing.T) {
	clock := &stoppedClock{}
	policy := limiter.PartitionPolicy{Name: "a", NewLimit: newFixed(3), Signature: "3"}
	g := limiter.New("g", &limiter.Policy{Named: []limiter.PartitionPolicy{policy}, Total: 3}, limiter.Options{Clock: clock})
	a, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	b, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	first, second := a.Stall(), b.Stall()
	if first.Contended() || !first.Excessive() {
		t.Errorf("contended %v, excessive %v; want the latter", first.Contended(), first.Excessive())
	}
	second.End()
	if first.Excessive() {
		t.Error("one of three is excessive")
	}
	c, _ := g.TryAdmit(0, limiter.Request{Key: "other"})
	if !first.Contended() {
		t.Error("not contended, want so while the total is full")
	}
	c.End(limiter.Ignored)
	if first.Contended() {
		t.Error("contended, although nobody has asked in vain")
	}
	first.End()
	a.End(limiter.Ignored)
	b.End(limiter.Ignored)
	var zero limiter.Permit
	if s := zero.Stall(); s.Contended() || s.Excessive() {
		t.Error("a permit that is none is stalled")
	}
}
