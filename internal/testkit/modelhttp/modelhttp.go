// Package modelhttp is a model of a backend that speaks HTTP: a number of
// workers, a time that each request takes a worker, a queue before them, and,
// if asked for, the collapse that overload brings.
//
// A [Backend] does no work; it waits. So its capacity is what its [Options]
// say, on any machine, and under a testing/synctest bubble to the nanosecond.
package modelhttp

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// ErrFull is returned by [Backend.Do] when the queue is full.
var ErrFull = errors.New("modelhttp: queue full")

// Options describe a backend. The zero value has one worker that takes 10 ms
// per request and a queue without bound.
type Options struct {
	// Workers is how many requests are served at once; 0 = 1.
	Workers int
	// Service is the time one request takes a worker; nil = always 10 ms. It
	// is called under a lock, in the order in which requests begin.
	Service func(r *rand.Rand) time.Duration
	// QueueDepth bounds the requests that wait for a worker; further ones are
	// answered 503 at once. 0 = no bound, negative = none may wait.
	QueueDepth int
	// Thrash slows every request down by this fraction for each request that
	// waits per worker, as contention, paging and cache misses do: with 0.5
	// and two waiting per worker, service takes twice as long. 0 = never.
	Thrash float64
	// Seed of the random numbers that Service gets.
	Seed uint64
}

// Backend is an http.Handler. It is safe for concurrent use.
type Backend struct {
	o Options

	mu      sync.Mutex // guards the fields below; never held across a wait
	rand    *rand.Rand
	busy    int
	waiting []chan struct{}
	stats   Stats
}

// Stats are counts since the backend was made, and what it holds now.
type Stats struct {
	Served, Refused, Abandoned uint64
	Busy, Queued, MaxQueued    int
}

// New returns a backend with all its workers idle.
func New(o Options) *Backend {
	if o.Workers <= 0 {
		o.Workers = 1
	}
	if o.Service == nil {
		o.Service = Constant(10 * time.Millisecond)
	}
	return &Backend{o: o, rand: rand.New(rand.NewPCG(o.Seed, 0))} //nolint:gosec // a model, not a secret
}

// Constant is a service time that is always d.
func Constant(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

// Exponential is a service time with the given mean, as memoryless as arrivals.
func Exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
}

// LogNormal is a service time with the given median and spread: sigma 0.5 has
// a 99th percentile at three times the median, sigma 1 at ten times.
func LogNormal(median time.Duration, sigma float64) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration {
		return time.Duration(float64(median) * math.Exp(sigma*r.NormFloat64()))
	}
}

// Do takes one request through the queue and a worker. It returns [ErrFull]
// when it may not wait, and ctx's error when ctx is done first; a worker that
// has begun is then freed at once.
func (b *Backend) Do(ctx context.Context) error {
	if err := b.acquire(ctx); err != nil {
		return err
	}
	t := time.NewTimer(b.serviceTime())
	defer t.Stop()
	select {
	case <-t.C:
		b.release(func(s *Stats) { s.Served++ })
		return nil
	case <-ctx.Done():
		b.release(func(s *Stats) { s.Abandoned++ })
		return ctx.Err()
	}
}

// ServeHTTP answers 200 with a short body when served and 503 when the queue
// is full. The body of the request is ignored.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch err := b.Do(r.Context()); {
	case err == nil:
		const body = "ok\n"
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write([]byte(body)) // when it fails the client is gone
	case errors.Is(err, ErrFull):
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	}
}

// Stats returns the backend's counts.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Busy, s.Queued = b.busy, len(b.waiting)
	return s
}

// acquire waits for a worker.
func (b *Backend) acquire(ctx context.Context) error {
	b.mu.Lock()
	if b.busy < b.o.Workers {
		b.busy++
		b.mu.Unlock()
		return nil
	}
	if b.o.QueueDepth < 0 || b.o.QueueDepth > 0 && len(b.waiting) >= b.o.QueueDepth {
		b.stats.Refused++
		b.mu.Unlock()
		return ErrFull
	}
	turn := make(chan struct{})
	b.waiting = append(b.waiting, turn)
	b.stats.MaxQueued = max(b.stats.MaxQueued, len(b.waiting))
	b.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		b.leave(turn)
		return ctx.Err()
	}
}

// leave takes a request that gave up out of the queue. When its turn came in
// the same moment, the worker goes to the next.
func (b *Backend) leave(turn chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Abandoned++
	for i, w := range b.waiting {
		if w == turn {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return
		}
	}
	b.nextLocked()
}

// release frees a worker and counts how its request ended.
func (b *Backend) release(count func(*Stats)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count(&b.stats)
	b.nextLocked()
}

// nextLocked hands a free worker to the request that waits longest.
func (b *Backend) nextLocked() {
	if len(b.waiting) == 0 {
		b.busy--
		return
	}
	turn := b.waiting[0]
	b.waiting = b.waiting[1:]
	close(turn)
}

// serviceTime draws the time of a request that begins now.
func (b *Backend) serviceTime() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := float64(max(b.o.Service(b.rand), 0))
	if b.o.Thrash > 0 {
		d *= 1 + b.o.Thrash*float64(len(b.waiting))/float64(b.o.Workers)
	}
	return time.Duration(min(d, float64(time.Hour)))
}
