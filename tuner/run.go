package tuner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// tickEvery is how often the tuner looks.
const tickEvery = time.Second

// Run reads the sources and decides, until ctx is done, and then closes the
// sources. Every source has a goroutine of its own, so that a slow one holds up
// nobody.
func (t *Tuner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if t.o.Mode != Off {
		for _, f := range t.feeds {
			if f.Source != nil {
				wg.Go(func() { t.read(ctx, f) })
			}
		}
	}
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		t.Tick(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	wg.Wait()
	return t.closeSources()
}

func (t *Tuner) closeSources() error {
	var errs []error
	for _, f := range t.feeds {
		if c, ok := f.Source.(Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// read reads one source again and again.
func (t *Tuner) read(ctx context.Context, f *feed) {
	every, timeout := f.Every, f.Timeout
	if every <= 0 {
		every = defaultEvery
	}
	if timeout <= 0 {
		timeout = min(defaultTimeout, every)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		t.readOnce(ctx, f, timeout)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// readOnce reads a source within its time. What a source panics with is a
// failure of the signal.
func (t *Tuner) readOnce(ctx context.Context, f *feed, timeout time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			now := t.nanos(time.Now())
			f.add(now, now, 0, fmt.Errorf("tuner: source panicked: %v", p))
			t.o.Log.Error("a source of the tuner panicked", slog.String("signal", f.Name), slog.String("stack", string(debug.Stack())))
		}
	}()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, at, err := f.Source.Read(limited)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if at.IsZero() {
		at = now
	}
	f.add(t.nanos(now), t.nanos(at), v, err)
}
