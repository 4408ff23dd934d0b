// Package modelwork is what the models of servers share: workers whose capacity
// is known exactly, and a loop that accepts connections.
package modelwork

import (
	"context"
	"net"
	"sync"
	"time"
)

// Workers serve their number / service time requests per second; what waits for
// one waits in no particular order. They are safe for concurrent use.
type Workers struct {
	idle    chan time.Time // with when each became idle; nil = requests cost nothing
	service time.Duration

	mu      sync.Mutex    // guards restart
	restart chan struct{} // closed and replaced by Restart
}

// New returns n workers, at least one. With a service time of 0 every request is
// served at once.
func New(n int, service time.Duration) *Workers {
	w := &Workers{service: service, restart: make(chan struct{})}
	if service > 0 {
		w.idle = make(chan time.Time, max(n, 1))
		for range cap(w.idle) {
			w.idle <- time.Now()
		}
	}
	return w
}

// Restart serves at once what waits for a worker, as if the server had been
// restarted.
func (w *Workers) Restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.restart)
	w.restart = make(chan struct{})
}

// Work occupies a worker for the service time and reports that the request was
// served, which it always is; it ends early when ctx does. A request that
// waited begins when the one before it was due to end, so that late timers do
// not lower the capacity.
func (w *Workers) Work(ctx context.Context) bool {
	if w.idle == nil {
		return true
	}
	w.mu.Lock()
	restart := w.restart
	w.mu.Unlock()
	came := time.Now()
	var free time.Time
	select {
	case free = <-w.idle:
	case <-restart:
		return true
	case <-ctx.Done():
		return true
	}
	if free.Before(came) {
		free = came
	}
	free = free.Add(w.service)
	t := time.NewTimer(time.Until(free))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	w.idle <- free
	return true
}

// Serve accepts from l until ctx is done, hands every connection to serve, and
// returns when all have been closed. It closes l, and the connections when ctx
// is done or serve returns.
func Serve(ctx context.Context, l net.Listener, serve func(context.Context, net.Conn)) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			_ = l.Close()
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		conns.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			serve(ctx, c)
		})
	}
}
