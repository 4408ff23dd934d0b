package decision_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/platinummonkey/go-concurrency-limits/core"
	"github.com/platinummonkey/go-concurrency-limits/limit"
	concurrency "github.com/platinummonkey/go-concurrency-limits/limiter"
	"github.com/platinummonkey/go-concurrency-limits/strategy"
	"golang.org/x/time/rate"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

// plenty is a rate that never runs dry, in tokens per second.
const plenty = 1e9

// setup describes the gate under test. It always has 1,000 partitions, each
// with a Gradient2 limit of its own that learns from every permit, and a
// request rate.
type setup struct {
	name    string
	options func() limiter.Options
	rate    limiter.Rate // of each partition, besides the gate's
}

// setups are the gate by itself, and as the daemon runs it.
func setups() []setup {
	return []setup{
		{name: "gate", options: func() limiter.Options { return limiter.Options{} }},
		{name: "gate-two-buckets", options: func() limiter.Options { return limiter.Options{} }, rate: limiter.Rate{PerSecond: plenty}},
		{name: "gate-guarded", options: func() limiter.Options { return limiter.Options{Clock: clock.New(clock.Options{})} }},
		{name: "gate-daemon", options: func() limiter.Options {
			return limiter.Options{Clock: clock.New(clock.Options{}), Observer: observe.New(observe.Options{}).Gate("bench")}
		}},
	}
}

// newGate returns a gate that knows 1,000 keys, and the keys. maxLimit is that
// of each partition.
func newGate(b *testing.B, s setup, maxLimit int) (*limiter.Gate, []string) {
	b.Helper()
	policy := &limiter.Policy{
		Rate: limiter.Rate{PerSecond: plenty},
		Default: limiter.PartitionPolicy{Rate: s.rate, NewLimit: func() limiter.Limit {
			o := algorithms.Gradient2Options{}
			if maxLimit > 0 {
				o.InitialLimit, o.MinLimit, o.MaxLimit = maxLimit, maxLimit, maxLimit
			}
			return algorithms.NewWindowedGradient2(o, algorithms.WindowOptions{})
		}},
	}
	g := limiter.New("bench", policy, s.options())
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%04d", i)
		permit, err := g.Admit(context.Background(), limiter.Request{Key: keys[i]})
		if err != nil {
			b.Fatal(err)
		}
		permit.End(limiter.Success)
	}
	return g, keys
}

// inParallel runs one in every goroutine. Each starts its tour of 1,000 keys
// elsewhere, as tenants do.
func inParallel(b *testing.B, one func(key int)) {
	b.Helper()
	var tours atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		key := int(tours.Add(1)) * 379 % 1000
		for pb.Next() {
			one(key)
			if key++; key == 1000 {
				key = 0
			}
		}
	})
}

// inOwnTenants is inParallel with keys that no two processors share.
func inOwnTenants(b *testing.B, one func(key int)) {
	b.Helper()
	var tours atomic.Int64
	share := 1000 / runtime.GOMAXPROCS(0)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		first := int(tours.Add(1)-1) * share
		key := first
		for pb.Next() {
			one(key)
			if key++; key == first+share {
				key = first
			}
		}
	})
}

// BenchmarkAdmit is an admitted request from its decision to the end of its
// permit.
func BenchmarkAdmit(b *testing.B) {
	ctx := context.Background()
	b.Run("x-time-rate", func(b *testing.B) {
		l := rate.NewLimiter(plenty, plenty)
		inParallel(b, func(int) {
			if !l.Allow() {
				b.Error("refused")
			}
		})
	})
	for _, s := range setups() {
		b.Run(s.name, func(b *testing.B) {
			g, keys := newGate(b, s, 0)
			inParallel(b, func(key int) {
				permit, err := g.Admit(ctx, limiter.Request{Key: keys[key]})
				if err != nil {
					b.Error(err)
				}
				permit.End(limiter.Success)
			})
		})
	}
	b.Run("gate-one-key", func(b *testing.B) { // as the peers below, that know neither keys nor tokens
		g := limiter.New("bench", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit {
			return algorithms.NewWindowedGradient2(algorithms.Gradient2Options{}, algorithms.WindowOptions{})
		}}}, limiter.Options{})
		inParallel(b, func(int) {
			permit, err := g.Admit(ctx, limiter.Request{})
			if err != nil {
				b.Error(err)
			}
			permit.End(limiter.Success)
		})
	})
	b.Run("failsafe-adaptive", func(b *testing.B) {
		l := adaptivelimiter.NewWithDefaults[any]()
		inParallel(b, func(int) {
			permit, ok := l.TryAcquirePermit()
			if !ok {
				b.Error("refused")
				return
			}
			permit.Record()
		})
	})
	b.Run("concurrency-limits-gradient2", func(b *testing.B) {
		l := newGradient2(b, 20)
		inParallel(b, func(int) {
			listener, ok := l.Acquire(ctx)
			if !ok {
				b.Error("refused")
				return
			}
			listener.OnSuccess()
		})
	})
}

// BenchmarkRefuse is a request that finds no permit, or, where there are only
// tokens, no token.
func BenchmarkRefuse(b *testing.B) {
	ctx := context.Background()
	b.Run("x-time-rate", func(b *testing.B) {
		l := rate.NewLimiter(1e-6, 1)
		l.Allow()
		inParallel(b, func(int) {
			if l.Allow() {
				b.Error("admitted")
			}
		})
	})
	for _, s := range setups() {
		b.Run(s.name, func(b *testing.B) {
			g, keys := newGate(b, s, 1)
			for _, key := range keys {
				if _, err := g.Admit(ctx, limiter.Request{Key: key}); err != nil {
					b.Fatal(err)
				}
			}
			inParallel(b, func(key int) {
				if _, err := g.Admit(ctx, limiter.Request{Key: keys[key]}); err == nil {
					b.Error("admitted")
				}
			})
		})
	}
	b.Run("gate-own-tenants", func(b *testing.B) {
		g, keys := newGate(b, setups()[0], 1)
		for _, key := range keys {
			if _, err := g.Admit(ctx, limiter.Request{Key: key}); err != nil {
				b.Fatal(err)
			}
		}
		inOwnTenants(b, func(key int) {
			if _, err := g.Admit(ctx, limiter.Request{Key: keys[key]}); err == nil {
				b.Error("admitted")
			}
		})
	})
	b.Run("gate-by-rate", func(b *testing.B) {
		g := limiter.New("bench", &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-3}}, limiter.Options{})
		g.Admit(ctx, limiter.Request{})
		inParallel(b, func(int) {
			if _, err := g.Admit(ctx, limiter.Request{}); err == nil {
				b.Error("admitted")
			}
		})
	})
	b.Run("failsafe-adaptive", func(b *testing.B) {
		l := adaptivelimiter.NewBuilder[any]().WithLimits(1, 1, 1).Build()
		l.TryAcquirePermit()
		inParallel(b, func(int) {
			if _, ok := l.TryAcquirePermit(); ok {
				b.Error("admitted")
			}
		})
	})
	b.Run("concurrency-limits-gradient2", func(b *testing.B) {
		l := newGradient2(b, 1)
		l.Acquire(ctx)
		inParallel(b, func(int) {
			if _, ok := l.Acquire(ctx); ok {
				b.Error("admitted")
			}
		})
	})
}

// newGradient2 returns the library's limiter, with a threshold that lets it
// sample every latency, as the gate does.
func newGradient2(b *testing.B, initial int) *concurrency.DefaultLimiter {
	b.Helper()
	formula, err := limit.NewGradient2Limit("bench", initial, max(initial, 1)*10, initial,
		func(int) int { return 4 }, 0.2, 600, limit.NoopLimitLogger{}, core.EmptyMetricRegistryInstance)
	if err != nil {
		b.Fatal(err)
	}
	l, err := concurrency.NewDefaultLimiter(formula, 1e9, 1e9, 0, 100, strategy.NewSimpleStrategy(initial),
		limit.NoopLimitLogger{}, core.EmptyMetricRegistryInstance)
	if err != nil {
		b.Fatal(err)
	}
	return l
}
