package limiter_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// A permit of the gate's total that ends goes to somebody who can use it: whose partition
// has reached its own limit meanwhile, or who has waited for too long, does not keep it
// from the next partition.
func TestPermitOfTheTotalIsNotLeftFree(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil    func(clock *stoppedClock, limit *recordingLimit)
		patience time.Duration
	}{
		"the first partition is full": {spoil: func(_ *stoppedClock, limit *recordingLimit) { limit.n.Store(1) }},
		"the first came too late":     {patience: time.Second, spoil: func(clock *stoppedClock, _ *recordingLimit) { clock.now.Add(int64(2 * time.Second)) }},
	} {
		t.Run(name, func(t *testing.T) {
			clock, limit := &stoppedClock{}, &recordingLimit{}
			limit.n.Store(5)
			g := limiter.New("g", &limiter.Policy{
				Total:   2,
				Default: limiter.PartitionPolicy{NewLimit: newFixed(5), QueueDepth: 5, MaxWait: time.Hour},
				Named:   []limiter.PartitionPolicy{{Name: "a", NewLimit: func() limiter.Limit { return limit }, QueueDepth: 5, MaxWait: time.Hour}},
			}, limiter.Options{Clock: clock})
			if _, err := g.TryAdmit(0, limiter.Request{Key: "a"}); err != nil {
				t.Fatal(err)
			}
			busy, _ := g.TryAdmit(0, limiter.Request{Key: "b"})
			wait(t, g, limiter.Request{Key: "a", MaxWait: tc.patience})
			next := wait(t, g, limiter.Request{Key: "c"})
			tc.spoil(clock, limit)
			busy.End(limiter.Success)
			if !isServed(t, next) {
				t.Error("a permit of the total is free, and who waits for it was not served")
			}
		})
	}
}

// Requests that callers have left fill a half of the common limit at most. Once they end,
// whoever waited for that is served, whichever partition they belong to.
func TestEndOfLeftWorkServesOtherPartitions(t *testing.T) {
	clock := &stoppedClock{}
	policy := before(nil, 8)
	policy.Default = limiter.PartitionPolicy{QueueDepth: 5, MaxWait: time.Hour}
	g := limiter.New("g", policy, limiter.Options{Clock: clock})
	var left []limiter.Permit
	for _, key := range []string{"a", "b", "b", "b", "b"} {
		p, err := g.TryAdmit(0, limiter.Request{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, p)
	}
	for i := range left {
		left[i].Leave()
	}
	waiting := wait(t, g, limiter.Request{Key: "a"})
	left[1].End(limiter.Ignored)
	if !isServed(t, waiting) {
		t.Error("there is room, and who waits for it was not served")
	}
}

// A permit of a partition that exists no more belongs to the gate still: when it ends who
// waits at the gate is served, though the gate has another backend by now, and nobody
// who waits for the backend of before is mixed up with those.
func TestRetiredPartitionAfterAnotherBackend(t *testing.T) {
	var a, b limiter.Backend
	clock := &stoppedClock{}
	policy := func(of *limiter.Backend, named bool) *limiter.Policy {
		p := before(of, 4)
		p.Total = 1
		p.Default = limiter.PartitionPolicy{QueueDepth: 5, MaxWait: time.Hour}
		if named {
			p.Named = []limiter.PartitionPolicy{{Name: "old", QueueDepth: 5, MaxWait: time.Hour}}
		}
		return p
	}
	g := limiter.New("g", policy(&a, true), limiter.Options{Clock: clock})
	other := limiter.New("other", policy(&a, false), limiter.Options{Clock: clock})
	held, err := g.TryAdmit(0, limiter.Request{Key: "old"})
	if err != nil {
		t.Fatal(err)
	}
	moved := wait(t, g, limiter.Request{Key: "old"})
	g.Apply(policy(&b, false))
	waiting := wait(t, g, limiter.Request{Key: "new"})
	busy, err := other.TryAdmit(0, limiter.Request{Key: "x"})
	if err != nil {
		t.Fatal(err)
	}
	there := wait(t, other, limiter.Request{Key: "y"})
	held.End(limiter.Success)
	first, _, done, err := moved.Step(0)
	if !done || err != nil {
		t.Fatal("a permit of a partition that is named no more ended, and who waits at its gate was not served")
	}
	if isServed(t, waiting) || isServed(t, there) {
		t.Error("one permit served several")
	}
	first.End(limiter.Success)
	busy.End(limiter.Success)
	if !isServed(t, waiting) || !isServed(t, there) {
		t.Error("who waited at a gate was forgotten")
	}
}

// Policies with other backends, partitions that come and go, and those who wait meanwhile:
// every permit is given back to where it came from.
func TestBackendsChangeUnderRetiredPartitions(t *testing.T) {
	var backends [2]limiter.Backend
	policies := make([]*limiter.Policy, 6)
	for i := range policies {
		p := before(&backends[i%2], 3)
		p.MaxPartitions, p.Total = 1+i%3, 2+i%3
		p.Default = limiter.PartitionPolicy{QueueDepth: 4, MaxWait: time.Millisecond}
		if i%2 == 0 {
			p.Named = []limiter.PartitionPolicy{{Name: "n", NewLimit: newFixed(1), Signature: "1", QueueDepth: 4, MaxWait: time.Millisecond}}
		}
		if i == 4 {
			p.Backend, p.Common = nil, nil
		}
		policies[i] = p
	}
	gates := []*limiter.Gate{limiter.New("a", policies[0], limiter.Options{}), limiter.New("b", policies[1], limiter.Options{})}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 600 {
				if worker < 3 && i%5 == 0 {
					gates[worker%2].Apply(policies[(i/5+worker)%len(policies)])
				}
				p, err := gates[(worker+i)%2].Admit(t.Context(), limiter.Request{Key: []string{"n", "k", "l", "m"}[i%4]})
				if err != nil {
					continue
				}
				if i%7 == 0 {
					p.Leave()
				}
				if i%50 == 0 {
					time.Sleep(time.Microsecond)
				}
				p.End(limiter.Success)
				p.End(limiter.Success)
			}
		})
	}
	all.Wait()
	for i, g := range gates {
		if s := g.Status(); s.InFlight != 0 || s.Queued != 0 {
			t.Errorf("gate %d: %d in flight, %d queued are left behind", i, s.InFlight, s.Queued)
		}
		for at := range backends {
			if left := limiter.Leftovers(&backends[at], g); left != "" {
				t.Errorf("gate %d, backend %d are left with%s", i, at, left)
			}
			p := before(&backends[at], 3)
			p.Total = 3
			g.Apply(p)
			var held []*limiter.Permit
			for n := range 3 {
				permit, ticket, err := g.Offer(g.Now(), limiter.Request{Key: fmt.Sprint(n)})
				if ticket != nil || err != nil {
					t.Errorf("gate %d, backend %d: a permit was lost: %v", i, at, err)
				}
				held = append(held, &permit)
			}
			if _, err := g.TryAdmit(g.Now(), limiter.Request{Key: "x"}); err == nil {
				t.Errorf("gate %d, backend %d: a permit was doubled", i, at)
			}
			for _, permit := range held {
				permit.End(limiter.Success)
			}
		}
	}
}

// A partition whose gate is given another backend is short there from the next refusal on,
// and the one before accounts for it no more.
func TestShortAtTheBackendInForce(t *testing.T) {
	var a, b limiter.Backend
	clock := &stoppedClock{}
	clock.now.Store(int64(time.Minute))
	g, other := limiter.New("g", before(&a, 1), limiter.Options{Clock: clock}), limiter.New("other", before(&a, 1), limiter.Options{Clock: clock})
	refuse := func(g *limiter.Gate, key string) {
		t.Helper()
		clock.now.Add(int64(time.Second))
		if _, err := g.TryAdmit(clock.Now(), limiter.Request{Key: key}); err == nil {
			t.Fatalf("%s of %s was admitted", key, g.Name())
		}
	}
	for _, gate := range []*limiter.Gate{other, limiter.New("third", before(&b, 1), limiter.Options{Clock: clock})} {
		if _, err := gate.TryAdmit(clock.Now(), limiter.Request{Key: "holder"}); err != nil {
			t.Fatal(err)
		}
	}
	refuse(g, "k")
	g.Apply(before(&b, 1))
	refuse(g, "k")
	if n := limiter.Short(&b); n != 1 {
		t.Errorf("%d partitions are short at the backend in force; want 1", n)
	}
	refuse(other, "x")
	refuse(other, "x")
	if n := limiter.Short(&a); n != 1 {
		t.Errorf("%d partitions are short at the backend of before; want that of the other gate alone", n)
	}
}
