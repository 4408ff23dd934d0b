package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// traffic is what passes the gate.
type traffic struct {
	url    string
	client *http.Client
	o      *options
	failed atomic.Int64
}

// fill has every tenant ask once, so that all partitions exist.
func (t *traffic) fill(ctx context.Context) error {
	const callers = 16
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < t.o.partitions && ctx.Err() == nil; i += callers {
				t.ask(ctx, i)
			}
		})
	}
	wg.Wait()
	if n := t.failed.Load(); n > 0 {
		return fmt.Errorf("%d of the first requests failed", n)
	}
	return ctx.Err()
}

// turn sends requests at the rate, whatever becomes of those before, and returns
// how long each took from when it was due.
func (t *traffic) turn(ctx context.Context) []time.Duration {
	n := int(t.o.rate * t.o.turn.Seconds())
	took := make([]time.Duration, n)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		due := begin.Add(time.Duration(float64(i) / t.o.rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			t.ask(ctx, rand.IntN(t.o.partitions))
			took[i] = time.Since(due)
		})
	}
	wg.Wait()
	return took
}

// ask sends one request of a tenant.
func (t *traffic) ask(ctx context.Context, tenant int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, http.NoBody)
	if err != nil {
		t.failed.Add(1)
		return
	}
	req.Header.Set("X-Tenant", fmt.Sprintf("tenant-%05d", tenant))
	res, err := t.client.Do(req)
	if err != nil {
		t.failed.Add(1)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.failed.Add(1)
	}
}
