package client_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/client"
)

func drawKind(t *rapid.T) client.Kind {
	return client.Kind(rapid.IntRange(int(client.Generic), int(client.Exempt)).Draw(t, "kind"))
}

func drawFailure(t *rapid.T) *client.Failure {
	return &client.Failure{
		Overload: rapid.Bool().Draw(t, "overload"), Retryable: rapid.Bool().Draw(t, "retryable"),
		Transient: rapid.Bool().Draw(t, "transient"), Final: rapid.IntRange(0, 9).Draw(t, "final") == 0,
		RetryAfter:  time.Duration(rapid.Int64().Draw(t, "retry after")),
		BaseBackoff: time.Duration(rapid.Int64().Draw(t, "base")),
	}
}

func drawPolicy(t *rapid.T) *client.Policy {
	p := rapid.SampledFrom([]func() client.Policy{
		client.Seed, client.Driver,
		func() client.Policy { return client.SlowDown(client.SlowDownOptions{}) },
	}).Draw(t, "profile")()
	p.MaxRetries = rapid.IntRange(0, 8).Draw(t, "max retries")
	p.OtherRetries = rapid.IntRange(-1, 8).Draw(t, "other retries")
	if p.BackoffAlways {
		p.OtherRetries = max(p.OtherRetries, 0)
	}
	p.ServerBase = rapid.Bool().Draw(t, "server base")
	p.HintSlack = time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "slack"))
	p.MinAttempt = time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "min attempt"))
	p.RetryReads = rapid.IntRange(0, 9).Draw(t, "reads") > 0
	p.RetryWrites = rapid.IntRange(0, 9).Draw(t, "writes") > 0
	p.AdaptiveRetries = rapid.Bool().Draw(t, "adaptive")
	p.BudgetCapacity = rapid.Float64Range(1, 20).Draw(t, "capacity")
	p.Rand = func() float64 { return rapid.Float64Range(0, 1).Draw(t, "jitter") }
	return &p
}

// Whatever is taken and given, by whatever amounts, the balance is that of a
// plain model, never below zero and never above the capacity.
func TestPropertyBudgetStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(0, 1_000_000).Draw(t, "capacity") // thousandths
		b, model := client.NewBudget(float64(capacity)/1000), capacity
		amount := rapid.Int64Range(-1000, 2_000_000)
		t.Repeat(map[string]func(*rapid.T){
			"consume": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				want := model >= max(n, 0)
				if got := b.Consume(float64(n) / 1000); got != want {
					t.Fatalf("Consume(%d/1000) = %v with %d/1000; want %v", n, got, model, want)
				}
				if want {
					model -= max(n, 0)
				}
			},
			"deposit": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				b.Deposit(float64(n) / 1000)
				model = min(capacity, model+max(n, 0))
			},
			"": func(t *rapid.T) {
				if got := b.Tokens(); got < 0 || got > float64(capacity)/1000 || got != float64(model)/1000 {
					t.Fatalf("balance is %v; want %v", got, float64(model)/1000)
				}
			},
		})
	})
}

// An operation without progress never waits longer in total than MaxSleep, and
// without hints and server bases never longer than the sum of its backoffs.
func TestPropertyTotalSleepIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		plain := rapid.Bool().Draw(t, "server gives no hints")
		s, b := client.State{Kind: drawKind(t)}, p.NewBudget()
		total, bound := time.Duration(0), p.MaxSleep()
		for range 40 {
			f := drawFailure(t)
			if plain {
				f.RetryAfter, f.BaseBackoff = 0, 0
			}
			d := p.Next(&s, f, client.NoDeadline, b)
			if d.Wait < 0 || !d.Retry && d.Wait != 0 {
				t.Fatalf("%+v", d)
			}
			if !d.Retry {
				break
			}
			total += d.Wait
		}
		if plain {
			bound = 0
			for n := 1; n <= max(p.MaxRetries, p.OtherRetries); n++ {
				bound += p.Backoff.Delay(n, 0, 1)
			}
		}
		if total > bound {
			t.Fatalf("waited %v in total; want at most %v", total, bound)
		}
	})
}

// MaxSleep is reached, so it is no idle promise.
func TestMaxSleepIsTight(t *testing.T) {
	for name, p := range map[string]client.Policy{
		"seed": client.Seed(), "driver": client.Driver(), "slow down": client.SlowDown(client.SlowDownOptions{}),
	} {
		f := refused()
		f.RetryAfter, f.BaseBackoff = math.MaxInt64, math.MaxInt64
		total := time.Duration(0)
		got, _ := waits(fixed(p, 1), client.Read, nil, never, times(f, 50)...)
		for _, w := range got {
			total += w
		}
		if total != p.MaxSleep() {
			t.Errorf("%s: the most that was waited is %v; MaxSleep is %v", name, total, p.MaxSleep())
		}
	}
}

// A failure that does not allow a retry never gets one, whatever went before.
func TestPropertyNonRetryableIsNeverRetried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		s, b := client.State{Kind: drawKind(t)}, p.NewBudget()
		left := time.Duration(rapid.Int64().Draw(t, "left"))
		for range rapid.IntRange(1, 12).Draw(t, "attempts") {
			f := drawFailure(t)
			d := p.Next(&s, f, left, b)
			may := f.Overload && f.Retryable || f.Transient && s.Kind != client.Generic
			on := map[client.Kind]bool{
				client.Read: p.RetryReads, client.Write: p.RetryWrites, client.Generic: p.RetryReads && p.RetryWrites,
			}[s.Kind] // Exempt is absent: never
			if d.Retry && (!may || !on || f.Final) {
				t.Fatalf("%v retried after %+v", s.Kind, *f)
			}
			if d.Retry != (d.Why == client.WhyRetry) {
				t.Fatalf("%+v contradicts itself", d)
			}
			if !d.Retry {
				return
			}
		}
	})
}

// In virtual time: whatever attempts take and servers ask for, no wait ends at
// or after the deadline, and MinAttempt is left.
func TestPropertyDeadlineIsNeverOversleptInVirtualTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		s, b := client.State{Kind: drawKind(t)}, p.NewBudget()
		deadline := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "deadline"))
		now := time.Duration(0)
		for range 50 {
			now += time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "attempt takes"))
			d := p.Next(&s, drawFailure(t), deadline-now, b)
			if !d.Retry {
				return
			}
			if now += d.Wait; now >= deadline || now > deadline-p.MinAttempt {
				t.Fatalf("retry at %v; the deadline is %v, an attempt needs %v", now, deadline, p.MinAttempt)
			}
		}
	})
}

// The same through Do, on the clock of a bubble: Do is back by the deadline.
func TestPropertyDoIsBackByTheDeadline(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPolicy(rt)
		jitter := rapid.Float64Range(0, 1).Draw(rt, "jitter")
		p.Rand = func() float64 { return jitter }
		timeout := time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(rt, "timeout"))
		// Not less: retries of transient failures may be unbounded, and come without a
		// wait, so attempts that take no time would go on for ever.
		takes := time.Duration(rapid.Int64Range(int64(10*ms), int64(time.Second)).Draw(rt, "attempt takes"))
		f, k := drawFailure(rt), drawKind(rt)
		var elapsed, late time.Duration
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, client.Options{Policy: p})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			start := time.Now()
			_ = c.Do(ctx, client.Operation{Kind: k, Run: func(ctx context.Context, _ *client.Attempt) error {
				if began := time.Since(start); began >= timeout {
					late = began
				}
				select {
				case <-ctx.Done():
				case <-time.After(takes):
				}
				return f
			}})
			elapsed = time.Since(start)
		})
		if elapsed > timeout || late > 0 {
			rt.Fatalf("Do took %v of %v; an attempt began late at %v", elapsed, timeout, late)
		}
	})
}
