package main

import (
	"context"
	"sync"
	"time"
)

// lag notes for how long this process was not run when it ought to have been: by so
// much everything may be off that is told of an instant.
type lag struct {
	mu    sync.Mutex // guards the fields below
	since []stall
}

// stall is a time in which nothing was run.
type stall struct {
	at     time.Time
	lasted time.Duration
}

// run measures until ctx is done.
func (l *lag) run(ctx context.Context) {
	const every = 5 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(every)
		now := time.Now()
		if late := now.Sub(last) - every; late > every {
			l.mu.Lock()
			l.since = append(l.since, stall{now, late})
			l.mu.Unlock()
		}
		last = now
	}
}

// worst returns the longest within a span.
func (l *lag) worst(s span) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.since {
		if s.has(one.at) {
			d = max(d, one.lasted)
		}
	}
	return d
}
