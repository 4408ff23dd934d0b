package peers

import (
	"context"
	"fmt"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/go-kratos/aegis/ratelimit"
	"github.com/go-kratos/aegis/ratelimit/bbr"
	"github.com/platinummonkey/go-concurrency-limits/core"
	"github.com/platinummonkey/go-concurrency-limits/limit"
	gcl "github.com/platinummonkey/go-concurrency-limits/limiter"
	"github.com/platinummonkey/go-concurrency-limits/strategy"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/limiter"
)

// Contenders returns the limiters of go-concurrency-limits behind its default
// limiter, failsafe-go's adaptive limiter, the BBR of aegis, all with their own
// defaults, and Envoy's gradient by its description. They work in a synctest
// bubble only.
func Contenders() []lab.Contender {
	registry := core.EmptyMetricRegistryInstance
	return []lab.Contender{
		library("gcl-aimd", func() core.Limit { return limit.NewDefaultAIMDLimit("lab", registry) }),
		library("gcl-vegas", func() core.Limit {
			return limit.NewDefaultVegasLimit("lab", limit.NoopLimitLogger{}, registry)
		}),
		library("gcl-gradient", func() core.Limit {
			return limit.NewGradientLimitWithRegistry("lab", 50, 1, 1000, 0.2, nil, 2, 1000, limit.NoopLimitLogger{}, registry)
		}),
		library("gcl-gradient2", func() core.Limit {
			return limit.NewDefaultGradient2Limit("lab", limit.NoopLimitLogger{}, registry)
		}),
		{Name: "failsafe-go", New: func(*lab.World) lab.Door {
			return &failsafe{limiter: adaptivelimiter.NewWithDefaults[any]()}
		}},
		{Name: "aegis-bbr", New: func(*lab.World) lab.Door {
			// It acts only while the processors of its own machine are busy. A
			// backend on another machine would never make it act, so it always may.
			return &aegis{limiter: bbr.NewLimiter(bbr.WithCPUThreshold(0))}
		}},
		envoyContender(),
	}
}

// library returns a limit of go-concurrency-limits as a contender.
func library(name string, build func() core.Limit) lab.Contender {
	return lab.Contender{Name: name, New: func(*lab.World) lab.Door {
		l := build()
		// What NewDefaultLimiterWithDefaults chooses, which makes Vegas only.
		d, err := gcl.NewDefaultLimiter(l, 1e9, 1e9, 1e5, 100, strategy.NewSimpleStrategy(l.EstimatedLimit()),
			limit.NoopLimitLogger{}, core.EmptyMetricRegistryInstance)
		if err != nil {
			panic(fmt.Sprintf("peers: the library refuses its own defaults: %v", err))
		}
		return &door{limit: l, limiter: d}
	}}
}

// door is a limiter of go-concurrency-limits.
type door struct {
	limit   core.Limit
	limiter core.Limiter
}

// Enter implements [lab.Door].
func (d *door) Enter(_ lab.Request, e lab.Entrant) (withdraw func()) {
	listener, ok := d.limiter.Acquire(context.Background()) //nolint:forbidigo // the library wants one and never waits on it
	if !ok {
		e.Refused(nil)
		return nil
	}
	e.Admitted(lab.EndFunc(func(o limiter.Outcome) {
		switch o {
		case limiter.Success:
			listener.OnSuccess()
		case limiter.Ignored:
			listener.OnIgnore()
		default:
			listener.OnDropped()
		}
	}))
	return nil
}

// Limit implements [lab.Door].
func (d *door) Limit() int { return d.limit.EstimatedLimit() }

// failsafe is failsafe-go's adaptive limiter.
type failsafe struct {
	limiter adaptivelimiter.AdaptiveLimiter[any]
}

// Enter implements [lab.Door].
func (f *failsafe) Enter(_ lab.Request, e lab.Entrant) (withdraw func()) {
	permit, ok := f.limiter.TryAcquirePermit()
	if !ok {
		e.Refused(nil)
		return nil
	}
	e.Admitted(lab.EndFunc(func(o limiter.Outcome) {
		if o == limiter.Success {
			permit.Record()
		} else {
			permit.Drop()
		}
	}))
	return nil
}

// Limit implements [lab.Door].
func (f *failsafe) Limit() int { return f.limiter.Limit() }

// aegis is the BBR limiter of aegis.
type aegis struct {
	limiter *bbr.BBR
}

// Enter implements [lab.Door]. The limiter does not look at outcomes.
func (a *aegis) Enter(_ lab.Request, e lab.Entrant) (withdraw func()) {
	done, err := a.limiter.Allow()
	if err != nil {
		e.Refused(nil)
		return nil
	}
	e.Admitted(lab.EndFunc(func(limiter.Outcome) { done(ratelimit.DoneInfo{}) }))
	return nil
}

// Limit implements [lab.Door].
func (a *aegis) Limit() int { return int(a.limiter.Stat().MaxInFlight) }
