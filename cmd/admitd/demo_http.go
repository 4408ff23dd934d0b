package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/lab"
)

// demoHTTP is the demo over HTTP.
type demoHTTP struct{ backend *demoBackend }

// demoBudget is the size of the retry budget in tokens: small, so that it has
// drained before the demo begins to count.
const demoBudget = 100

// demoBacklog bounds the requests that wait inside the backend.
const demoBacklog = 100_000

// Start implements [demoTarget].
func (d *demoHTTP) Start(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo backend: %w", err)
	}
	b := &demoBackend{jobs: make(chan demoJob, demoBacklog)}
	d.backend = b
	for range demoWorkers {
		go b.work(ctx)
	}
	srv := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(ln) }() // ends with the listener
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	return "http://" + ln.Addr().String(), nil
}

// demoBackend serves a fixed number of requests at a time. Work that its client
// gave up is done all the same, as most databases do.
type demoBackend struct {
	jobs   chan demoJob
	inside atomic.Int64
}

// demoJob is a request inside the backend.
type demoJob struct {
	came time.Time
	done chan struct{}
}

// ServeHTTP implements [http.Handler].
func (b *demoBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j := demoJob{came: time.Now(), done: make(chan struct{})}
	b.inside.Add(1)
	select {
	case b.jobs <- j:
	default:
		b.inside.Add(-1)
		http.Error(w, "backlog is full", http.StatusServiceUnavailable)
		return
	}
	select {
	case <-j.done:
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	case <-r.Context().Done():
	}
}

// Restart implements [demoTarget].
func (d *demoHTTP) Restart() {
	for {
		select {
		case j := <-d.backend.jobs:
			d.backend.inside.Add(-1)
			close(j.done)
		default:
			return
		}
	}
}

// work is one worker: every request takes 5 to 15 ms, longer the more are inside. A request that waited begins when the one before it was due to
// end, so that late timers do not lower the capacity.
func (b *demoBackend) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	free := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-b.jobs:
			slow := 1 + demoThrash*float64(max(b.inside.Load()-demoWorkers, 0))
			if free.Before(j.came) {
				free = j.came
			}
			free = free.Add(time.Duration((0.5 + rand.Float64()) * slow * float64(demoService))) //nolint:gosec // a model
			timer.Reset(time.Until(free))
			<-timer.C
			b.inside.Add(-1)
			close(j.done)
		}
	}
}

// Clients implements [demoTarget].
func (*demoHTTP) Clients() (first, second string) { return "overload, gate on", "and a retry budget" }

// Client implements [demoTarget]: the reference client, in the second kind with
// a retry budget.
func (*demoHTTP) Client(_ context.Context, gate string, budget bool) (func(context.Context) lab.Sent, func(), error) {
	policy := client.Seed()
	policy.AdaptiveRetries = budget
	policy.BudgetCapacity = demoBudget
	counter := &attemptCounter{}
	c, err := client.New(client.Options{Policy: &policy})
	if err != nil {
		return nil, nil, err
	}
	base := &http.Transport{MaxIdleConnsPerHost: 1024, MaxConnsPerHost: 0, IdleConnTimeout: 10 * time.Second}
	counter.next = base
	hc := &http.Client{Transport: c.Transport(counter)}
	send := func(ctx context.Context) lab.Sent {
		a := &attempts{}
		verdict := sendHTTP(context.WithValue(ctx, attemptsKey{}, a), hc, "http://"+gate+"/")
		return lab.Sent{Verdict: verdict, Attempts: a.n, Last: time.Since(a.last)}
	}
	return send, base.CloseIdleConnections, nil
}

// sendHTTP makes one request.
func sendHTTP(ctx context.Context, hc *http.Client, url string) lab.Verdict {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return lab.Failed
	}
	resp, err := hc.Do(req)
	if err != nil {
		var gaveUp *client.Error
		if errors.As(err, &gaveUp) && gaveUp.Attempts > 0 && ctx.Err() == nil {
			return lab.Refused
		}
		return lab.Failed
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return lab.Failed
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return lab.Answered
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return lab.Refused
	default:
		return lab.Failed
	}
}

// attempts of one request.
type attempts struct {
	n    int
	last time.Time // when the last one began
}

// attemptsKey finds the attempts of one request.
type attemptsKey struct{}

// attemptCounter counts the attempts of each request.
type attemptCounter struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a *attemptCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if n, ok := r.Context().Value(attemptsKey{}).(*attempts); ok {
		n.n++
		n.last = time.Now()
	}
	return a.next.RoundTrip(r)
}
