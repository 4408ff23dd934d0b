// Package modelhttp is a model of an HTTP backend whose capacity is known
// exactly, a number of workers and a service time, and that goes on with work
// whose caller has left, as most databases do.
package modelhttp

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// maxBacklog bounds the requests that wait inside the backend.
const maxBacklog = 100_000

// Options of a [Server].
type Options struct {
	Workers int           // requests that are worked on at a time, at least 1
	Service time.Duration // mean time of one; each takes half to one and a half
	Thrash  float64       // share by which each is slower for every request inside beyond the workers
}

// Server is the model backend. It is safe for concurrent use.
type Server struct {
	o      Options
	jobs   chan job
	inside atomic.Int64
}

// job is a request inside the backend.
type job struct {
	came time.Time
	done chan struct{}
}

// New returns a server whose workers end with ctx.
func New(ctx context.Context, o Options) *Server {
	o.Workers = max(o.Workers, 1)
	s := &Server{o: o, jobs: make(chan job, maxBacklog)}
	for range o.Workers {
		go s.work(ctx)
	}
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j := job{came: time.Now(), done: make(chan struct{})}
	s.inside.Add(1)
	select {
	case s.jobs <- j:
	default:
		s.inside.Add(-1)
		http.Error(w, "backlog is full", http.StatusServiceUnavailable)
		return
	}
	select {
	case <-j.done:
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	case <-r.Context().Done():
	}
}

// Restart answers at once what waits for a worker, as if the server had been
// restarted.
func (s *Server) Restart() {
	for {
		select {
		case j := <-s.jobs:
			s.inside.Add(-1)
			close(j.done)
		default:
			return
		}
	}
}

// work is one worker. A request that waited begins when the one before it was
// due to end, so that late timers do not lower the capacity.
func (s *Server) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	free := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-s.jobs:
			slow := 1 + s.o.Thrash*float64(max(s.inside.Load()-int64(s.o.Workers), 0))
			if free.Before(j.came) {
				free = j.came
			}
			free = free.Add(time.Duration((0.5 + rand.Float64()) * slow * float64(s.o.Service))) //nolint:gosec // a model
			timer.Reset(time.Until(free))
			<-timer.C
			s.inside.Add(-1)
			close(j.done)
		}
	}
}
