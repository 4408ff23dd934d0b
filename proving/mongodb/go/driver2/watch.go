package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

// seen is what the driver has told since it was cleared.
type seen struct {
	began, ended    []time.Time
	bases           []time.Duration
	created, closed int
	out, most       int // connections that are checked out
	streamed        int // answers to hellos that were waited for
}

// watch notes attempts, connections and servers.
type watch struct {
	mu    sync.Mutex
	seen  seen
	known map[string]bool
}

func (w *watch) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen{out: w.seen.out}
}

func (w *watch) get() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen
	s.began, s.ended, s.bases = slices.Clone(s.began), slices.Clone(s.ended), slices.Clone(s.bases)
	return s
}

func (w *watch) note(f func(s *seen)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.seen)
}

func (w *watch) commands() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == "find" || e.CommandName == "insert" {
				w.note(func(s *seen) { s.began = append(s.began, time.Now()) })
			}
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			var base time.Duration
			if of, ok := errors.AsType[driver.Error](e.Failure); ok {
				base = of.BaseBackoff
			}
			w.note(func(s *seen) { s.ended, s.bases = append(s.ended, time.Now()), append(s.bases, base) })
		},
	}
}

func (w *watch) pool() *event.PoolMonitor {
	return &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		w.note(func(s *seen) {
			switch e.Type {
			case event.ConnectionCreated:
				s.created++
			case event.ConnectionClosed:
				s.closed++
			case event.ConnectionCheckedOut:
				s.out++
				s.most = max(s.most, s.out)
			case event.ConnectionCheckedIn:
				s.out--
			}
		})
	}}
}

func (w *watch) servers() *event.ServerMonitor {
	return &event.ServerMonitor{
		ServerHeartbeatSucceeded: func(e *event.ServerHeartbeatSucceededEvent) {
			if e.Awaited {
				w.note(func(s *seen) { s.streamed++ })
			}
		},
		TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.known = map[string]bool{}
			for _, server := range e.NewDescription.Servers {
				w.known[string(server.Addr)] = true
			}
		},
	}
}

// knows returns the addresses that the driver knows.
func (w *watch) knows() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.known {
		all = append(all, a)
	}
	return all
}

// isAuth reports whether a login failed.
func isAuth(err error) bool {
	var e mongo.ServerError
	return errors.As(err, &e) && e.HasErrorCode(18) || strings.Contains(strings.ToLower(err.Error()), "auth")
}
