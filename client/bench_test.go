package client_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/admitd/admitd/client"
)

// work is the bare call that the executor is compared with.
func work(context.Context, *client.Attempt) error { return nil }

// A first attempt that succeeds costs one allocation over the bare call, with a
// budget and hooks that listen.
func TestDoAllocations(t *testing.T) {
	p := adaptive(client.Seed())
	noop := func(context.Context, client.Event) {}
	for name, o := range map[string]client.Options{
		"plain":  {},
		"budget": {Policy: &p},
		"hooks":  {Policy: &p, Hooks: client.Hooks{Started: noop, Succeeded: noop, Failed: noop, Budget: func(float64) {}}},
	} {
		c, ctx := newClient(t, o), t.Context()
		op := client.Operation{Name: "op", Kind: client.Read, Run: work}
		if got := testing.AllocsPerRun(1000, func() { _ = c.Do(ctx, op) }); got > 1 {
			t.Errorf("%s: Do allocates %v times over the bare call; want at most 1", name, got)
		}
	}
}

// A decision allocates nothing, so a simulation can take millions.
func TestNextAllocations(t *testing.T) {
	p, b := fixed(adaptive(client.Seed()), 0.5), client.NewBudget(1000)
	f := refused()
	if got := testing.AllocsPerRun(1000, func() {
		s := client.State{Kind: client.Read}
		p.Next(&s, f, time.Second, b)
		p.Done(&s, b)
	}); got != 0 {
		t.Errorf("Next and Done allocate %v times; want 0", got)
	}
}

func BenchmarkBareCall(b *testing.B) {
	ctx, a, run := b.Context(), new(client.Attempt), work
	b.ReportAllocs()
	for b.Loop() {
		_ = run(ctx, a)
	}
}

func BenchmarkDoFirstAttemptSucceeds(b *testing.B) {
	p := adaptive(client.Seed())
	noop := func(context.Context, client.Event) {}
	for name, o := range map[string]client.Options{
		"plain":  {},
		"budget": {Policy: &p},
		"hooks":  {Policy: &p, Hooks: client.Hooks{Started: noop, Succeeded: noop, Failed: noop}},
	} {
		b.Run(name, func(b *testing.B) {
			c, ctx := newClient(b, o), b.Context()
			op := client.Operation{Name: "op", Kind: client.Read, Run: work}
			b.ReportAllocs()
			for b.Loop() {
				_ = c.Do(ctx, op)
			}
		})
	}
}

// All goroutines share one budget, which is not full.
func BenchmarkDoParallelDrainedBudget(b *testing.B) {
	p := adaptive(client.Seed())
	p.BudgetCapacity, p.BudgetReturn = 1<<30, 0.001
	c, ctx := newClient(b, client.Options{Policy: &p}), b.Context()
	c.Budget().Consume(1 << 30)
	op := client.Operation{Name: "op", Kind: client.Read, Run: work}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = c.Do(ctx, op)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	p, budget, f := fixed(client.Seed(), 0.5), client.NewBudget(1000), refused()
	b.ReportAllocs()
	for b.Loop() {
		s := client.State{Kind: client.Read}
		p.Next(&s, f, time.Second, budget)
		p.Done(&s, budget)
	}
}

func BenchmarkTransportFirstAttemptSucceeds(b *testing.B) {
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	t := newClient(b, client.Options{}).Transport(base)
	req := request(b, http.MethodGet, "")
	b.ReportAllocs()
	for b.Loop() {
		resp, _ := t.RoundTrip(req)
		resp.Body.Close()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
