package limiter_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// before returns a policy of partitions without limits of their own before a backend.
func before(b *limiter.Backend, limit int) *limiter.Policy {
	return &limiter.Policy{
		Backend: b, Common: &limiter.CommonLimit{NewLimit: newFixed(limit), Signature: fmt.Sprint(limit)},
		Default: limiter.PartitionPolicy{QueueAuto: true},
	}
}

// crowd returns tenants that ask for rates of their own, as often a second.
func crowdOf(rates []float64, maxWait time.Duration) (sources []source) {
	for i, rate := range rates {
		name := fmt.Sprintf("tenant %d", i)
		sources = append(sources, source{name: name, req: limiter.Request{Key: name, MaxWait: maxWait}, rate: rate, hold: 20 * time.Millisecond})
	}
	return sources
}

// parts returns what each tenant is to be served of what all are, max-min by what they
// ask for.
func parts(rates []float64, all float64) []float64 {
	order := make([]int, len(rates))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return int(rates[i]*1e6) - int(rates[j]*1e6) })
	out := make([]float64, len(rates))
	for n, i := range order {
		out[i] = min(rates[i], all/float64(len(rates)-n))
		all -= out[i]
	}
	return out
}

// Whatever tenants ask for in an overload, over ten seconds each is served its part, and
// the capacity is used. Who was shut out stayed so, as only what was held counted.
func TestEveryTenantGetsItsPart(t *testing.T) {
	equal := func(n int, load float64) (rates []float64) {
		for range n {
			rates = append(rates, load*600/float64(n))
		}
		return rates
	}
	halves := func(n int) (rates []float64) {
		for i := range n {
			rates = append(rates, 1200/float64(i+1)/3.6)
		}
		return rates
	}
	for name, tc := range map[string]struct {
		rates   []float64
		maxWait time.Duration
		part    float64 // least share of its part that every tenant gets
		use     float64 // least share of the capacity
	}{
		"two alike":                   {equal(2, 2), 0, 0.95, 0.95},
		"twenty alike":                {equal(20, 2), 0, 0.9, 0.95},
		"more than there are permits": {equal(60, 2), 0, 0.85, 0.95},
		"each half of the one before": {halves(20), 0, 0.85, 0.95},
		"one storms":                  {append(equal(19, 0.5), 900), 0, 0.9, 0.95},
		"one asks for just its part":  {[]float64{300, 1200}, 0, 0.95, 0.95},
		"twenty alike, none can wait": {equal(20, 2), limiter.NoWait, 0.85, 0.9},
		"one storms, none can wait":   {append(equal(19, 0.5), 900), limiter.NoWait, 0.8, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			y := newSimGate(before(nil, 16), 1)
			y.workers = 12
			const span = 10 * time.Second
			y.play(5*time.Second, crowdOf(tc.rates, tc.maxWait)...)
			worst, used := 9.0, 9.0
			for range 3 {
				clear(y.tally)
				for i := range tc.rates {
					y.tally[fmt.Sprintf("tenant %d", i)] = &causeTotal{}
				}
				y.play(span)
				var offered, served []float64
				all := 0.0
				for i := range tc.rates {
					o := y.tally[fmt.Sprintf("tenant %d", i)]
					offered, served, all = append(offered, float64(o.offered)), append(served, float64(o.served)), all+float64(o.served)
				}
				for i, part := range parts(offered, all) {
					if part >= 20 {
						worst = min(worst, served[i]/part)
					}
				}
				used = min(used, all/span.Seconds()/600)
			}
			t.Logf("the tenant served least has %.2f of its part; %.2f of the capacity is used", worst, used)
			if worst < tc.part || used < tc.use {
				t.Errorf("the tenant served least has %.2f of its part, and %.2f of the capacity is used; want %.2f and %.2f", worst, used, tc.part, tc.use)
			}
		})
	}
}

// Two gates before one backend have one limit between them: who waits at one is served
// by a permit that ends at the other, and a limit of a partition's own stays a bound
// below the common one.
func TestTwoGatesShareABackend(t *testing.T) {
	b, clock := &limiter.Backend{}, &stoppedClock{}
	policy := before(b, 3)
	policy.Named = []limiter.PartitionPolicy{{Name: "small", NewLimit: newFixed(1), Signature: "1", QueueAuto: true}}
	one, two := limiter.New("one", policy, limiter.Options{Clock: clock}), limiter.New("two", policy, limiter.Options{Clock: clock})
	admit := func(g *limiter.Gate, key string) limiter.Permit {
		t.Helper()
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: key})
		if err != nil {
			t.Fatalf("%s of %s: %v", key, g.Name(), err)
		}
		return p
	}
	first := admit(one, "small")
	if _, err := one.TryAdmit(clock.Now(), limiter.Request{Key: "small"}); err == nil || err.(*limiter.Rejection).Limit != labels.ByPartition { //nolint:errorlint,forcetypeassert // the gate returns it bare
		t.Errorf("a second of small: %v; want a refusal by its own limit", err)
	}
	second, third := admit(two, "b"), admit(two, "c")
	if _, err := one.TryAdmit(clock.Now(), limiter.Request{Key: "d"}); err == nil || err.(*limiter.Rejection).Limit != labels.ByTotal { //nolint:errorlint,forcetypeassert // as above
		t.Errorf("a fourth of both gates: %v; want a refusal by the total", err)
	}
	waiting := wait(t, one, limiter.Request{Key: "d"})
	if one.Status().Queued != 1 || two.Status().Queued != 0 {
		t.Errorf("%d and %d wait; want 1 at the gate that was asked", one.Status().Queued, two.Status().Queued)
	}
	second.End(limiter.Success)
	select {
	case <-waiting.Ready():
	default:
		t.Error("a permit ended at one gate, and who waits at the other was not served")
	}
	fourth, _, done, err := waiting.Step(clock.Now())
	if !done || err != nil {
		t.Fatalf("Step = %v, %v; want the permit", done, err)
	}
	for _, p := range []*limiter.Permit{&first, &third, &fourth} {
		p.End(limiter.Success)
	}
	clock.now.Add(int64(time.Minute))
	for range 3 {
		admit(two, "e")
	}
}

// A gate that is given another backend takes along who waits; permits end where they were
// granted, and nothing is lost.
func TestGateChangesItsBackend(t *testing.T) {
	var a, b limiter.Backend
	g := limiter.New("g", before(&a, 2), limiter.Options{})
	other := limiter.New("other", before(&b, 2), limiter.Options{})
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			for i := range 400 {
				if worker == 0 && i%20 == 0 {
					g.Apply([]*limiter.Policy{before(&a, 2), before(&b, 2), before(nil, 2)}[i/20%3])
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				gate := g
				if worker == 1 {
					gate = other
				}
				if p, err := gate.Admit(ctx, limiter.Request{Key: string(rune('a' + i%4))}); err == nil {
					if i%7 == 0 {
						p.Leave()
					}
					p.End(limiter.Success)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for _, gate := range []*limiter.Gate{g, other} {
		if s := gate.Status(); s.InFlight != 0 || s.Queued != 0 {
			t.Errorf("%s: %d in flight, %d queued are left behind", gate.Name(), s.InFlight, s.Queued)
		}
	}
	for _, of := range []*limiter.Backend{&a, &b} {
		g.Apply(before(of, 2))
		var held []*limiter.Permit
		for range 2 {
			p, err := g.Admit(t.Context(), limiter.Request{Key: "z"})
			if err != nil {
				t.Errorf("a permit was lost: %v", err)
			}
			held = append(held, &p)
		}
		for _, p := range held {
			p.End(limiter.Success)
		}
	}
}

// Callers that give up while they wait for a permit are demand that was not met: a limit
// that lets too much in heard of no refusal at all where callers had less patience than
// the queue.
func TestWhoGivesUpWaitingIsDemand(t *testing.T) {
	for _, own := range []bool{true, false} {
		clock, limit := &stoppedClock{}, &demanded{}
		limit.n.Store(1)
		p := &limiter.Policy{Default: limiter.PartitionPolicy{QueueDepth: 5, MaxWait: time.Hour}}
		if own {
			p.Default.NewLimit = func() limiter.Limit { return limit }
		} else {
			p.Common = &limiter.CommonLimit{NewLimit: func() limiter.Limit { return limit }}
		}
		g := limiter.New("g", p, limiter.Options{Clock: clock})
		busy, _ := g.TryAdmit(clock.Now(), limiter.Request{Key: "a"})
		wait(t, g, limiter.Request{Key: "a"}).Abandon()
		if offered, refused := limit.demand(); offered != 2 || refused != 1 {
			t.Errorf("own limit %v: %d offered, %d refused; want 2 and 1", own, offered, refused)
		}
		busy.End(limiter.Success)
	}
}

// demanded is a limit that keeps where it learns of the demand.
type demanded struct {
	recordingLimit

	demand func() (offered, refused uint64)
}

// Watch implements the method of [limiter.Limit].
func (w *demanded) Watch(demand func() (offered, refused uint64)) { w.demand = demand }
