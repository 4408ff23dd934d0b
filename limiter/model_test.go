package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/limiter"
)

// Whatever the order of acquires, ends and reloads, permits held never pass
// the limit, and a refusal occurs only when all are held, or all but the one of the
// total that a partition which had more leaves to those that had less.
func TestLimiterModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const total = 7
		limits := map[string]int{"a": 3, "b": 4, "c": 5}
		policy := &limiter.Policy{Total: total}
		for _, name := range []string{"a", "b", "c"} {
			policy.Named = append(policy.Named, limiter.PartitionPolicy{Name: name, NewLimit: newFixed(limits[name]), Signature: name})
		}
		g := limiter.New("g", policy, limiter.Options{})
		held := map[string][]*limiter.Permit{}
		sum := 0
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
				p, err := g.TryAdmit(g.Now(), limiter.Request{Key: key})
				full, left := len(held[key]) == limits[key] || sum == total, sum == total-1
				if (err == nil) == full && !(err != nil && left) {
					t.Fatalf("TryAdmit(%s) = %v with %d of %d, %d of %d in all", key, err, len(held[key]), limits[key], sum, total)
				}
				if err == nil {
					held[key] = append(held[key], &p)
					sum++
				}
			},
			"end": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
				if len(held[key]) == 0 {
					t.Skip()
				}
				p := held[key][0]
				held[key] = held[key][1:]
				sum--
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					p.End(limiter.Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")))
				}
			},
			"reload": func(*rapid.T) { g.Apply(policy) },
			"": func(t *rapid.T) {
				s := g.Status()
				if s.InFlight != sum {
					t.Fatalf("in flight %d; the model holds %d", s.InFlight, sum)
				}
				for _, p := range s.Labels {
					if p.InFlight != len(held[p.Label]) {
						t.Fatalf("%s: in flight %d; the model holds %d", p.Label, p.InFlight, len(held[p.Label]))
					}
				}
			},
		})
	})
}

// A partitioned limiter that checks the total and then takes, in two steps,
// admits beyond it under concurrency (published against the reference Java
// library). Two thousand callers on a total of 50 over four partitions: never
// more than 50.
func TestTotalHoldsUnderConcurrency(t *testing.T) {
	const total = 50
	g := limiter.New("g", &limiter.Policy{Total: total, Default: limiter.PartitionPolicy{NewLimit: newFixed(100)}}, limiter.Options{})
	var granted atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 2000 {
		wg.Go(func() {
			<-start
			if _, err := g.Admit(context.Background(), limiter.Request{Key: string(rune('a' + i%4))}); err == nil {
				granted.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if got := granted.Load(); got != total {
		t.Errorf("%d permits granted; want exactly %d", got, total)
	}
}

// A waiter that is granted a permit in the instant in which it gives up must
// not take the permit with it (published against the reference library's
// blocking limiter, which then admits less and less, in the end nothing).
func TestGrantedWhileGivingUpLosesNothing(t *testing.T) {
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(1), QueueDepth: 8, MaxWait: time.Millisecond}}, limiter.Options{})
			first, _ := g.Admit(t.Context(), limiter.Request{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			for range 4 {
				go func() {
					c := t.Context()
					if i%2 == 0 {
						c = ctx
					}
					p, err := g.Admit(c, limiter.Request{})
					if err == nil {
						p.End(limiter.Success)
					}
				}()
			}
			time.Sleep(time.Millisecond)
			first.End(limiter.Success)
			synctest.Wait()
			if s := g.Status(); s.InFlight != 0 || s.Queued != 0 {
				t.Fatalf("%d in flight, %d queued; a permit was lost", s.InFlight, s.Queued)
			}
		})
	}
}

// Releasing a place of the total wakes who waits in another partition.
func TestTotalIsSharedByTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New("g", &limiter.Policy{Total: 1, Default: limiter.PartitionPolicy{NewLimit: newFixed(5), QueueDepth: 2, MaxWait: time.Second}}, limiter.Options{})
		a, _ := g.Admit(t.Context(), limiter.Request{Key: "a"})
		time.AfterFunc(10*time.Millisecond, func() { a.End(limiter.Success) })
		start := time.Now()
		if _, err := g.Admit(t.Context(), limiter.Request{Key: "b"}); err != nil || time.Since(start) != 10*time.Millisecond {
			t.Errorf("b: %v after %v; want the permit that a released after 10ms", err, time.Since(start))
		}
	})
}

// A million keys leave a bounded table, and tenants in use keep their place.
func TestKeysAreBounded(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{MaxPartitions: 100}, limiter.Options{Clock: clock})
	tenants := 50
	for i := range tenants {
		g.TryAdmit(clock.Now(), limiter.Request{Key: fmt.Sprint("tenant", i)})
	}
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 50_000
	}
	for i := range n {
		clock.now.Add(int64(100 * time.Microsecond))
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: fmt.Sprint("flood", i)})
		if err == nil {
			p.End(limiter.Success)
		}
	}
	s := g.Status()
	if len(s.Partitions) > 102 || len(s.Labels) != 2 {
		t.Errorf("%d partitions, %d labels; want at most 102 and 2", len(s.Partitions), len(s.Labels))
	}
	kept := 0
	for _, p := range s.Partitions {
		if len(p.Name) > 6 && p.Name[:6] == "tenant" {
			kept++
		}
	}
	if kept != tenants {
		t.Errorf("%d of %d tenants with permits in flight kept their partition", kept, tenants)
	}
	var admitted uint64
	for _, l := range s.Labels {
		admitted += l.Counts.Admitted
	}
	if admitted != uint64(n+tenants) {
		t.Errorf("counted %d admissions; want %d", admitted, n+tenants)
	}
}

// Deciding allocates nothing, whether it admits or refuses.
func TestDecidingAllocatesNothing(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e9}, Default: limiter.PartitionPolicy{NewLimit: newFixed(2), Rate: limiter.Rate{PerSecond: 1e9}}}, limiter.Options{})
	ctx := t.Context()
	g.Admit(ctx, limiter.Request{Key: "a"})
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := g.Admit(ctx, limiter.Request{Key: "a"})
		p.End(limiter.Success)
	}); n != 0 {
		t.Errorf("admitting allocates %v times", n)
	}
	g.Admit(ctx, limiter.Request{Key: "a"})
	if n := testing.AllocsPerRun(1000, func() { g.Admit(ctx, limiter.Request{Key: "a"}) }); n != 0 {
		t.Errorf("refusing allocates %v times", n)
	}
}
