package tuner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/tuner/signal"
)

// signalReaders read the signals. Safe for concurrent use.
type signalReaders struct {
	log   *slog.Logger
	epoch time.Time // zero of the monotonic clock that signals are told
	feeds []*feed
}

func newSignalReaders(now time.Time, list []Signal, log *slog.Logger) *signalReaders {
	s := &signalReaders{log: log, epoch: now}
	for _, one := range list {
		s.feeds = append(s.feeds, &feed{Signal: one, sig: signal.New(one.Options)})
	}
	return s
}

// nanos is the time that signals are told.
func (s *signalReaders) nanos(now time.Time) int64 { return int64(now.Sub(s.epoch)) }

// add passes on what was read for the signal of that name.
func (s *signalReaders) add(now time.Time, name string, v float64, at time.Time, err error) {
	for _, f := range s.feeds {
		if f.Name == name {
			if at.IsZero() {
				at = now
			}
			f.add(s.nanos(now), s.nanos(at), v, err)
		}
	}
}

// own reads the gate's own signals from how it did.
func (s *signalReaders) own(now time.Time, p *past) {
	for _, f := range s.feeds {
		if f.Source != nil || f.Metric == "" {
			continue
		}
		if b, ok := p.histories[f.Ingress].last(); ok && b.to.Equal(now) {
			if v := b.own(f.Metric); v == v { // nothing is read of a quantile of nothing
				f.add(s.nanos(now), s.nanos(now), v, nil)
			}
		}
	}
}

// all returns what every signal says, in the order of the configuration.
func (s *signalReaders) all(now time.Time) []SignalNow {
	at, out := s.nanos(now), make([]SignalNow, 0, len(s.feeds))
	for _, f := range s.feeds {
		v := f.value(at)
		out = append(out, SignalNow{
			Name: f.Name, Value: v.Value, Trusted: v.OK(), Distrust: v.Distrust, Detail: v.Detail, AgeSeconds: max(v.Age.Seconds(), 0),
		})
	}
	return out
}

// forget drops everything that was read.
func (s *signalReaders) forget() {
	for _, f := range s.feeds {
		f.mu.Lock()
		f.sig.Reset()
		f.mu.Unlock()
	}
}

// run reads every source in a goroutine of its own until ctx is done, so that a
// slow one holds up nobody.
func (s *signalReaders) run(ctx context.Context, wg *sync.WaitGroup) {
	for _, f := range s.feeds {
		if f.Source != nil {
			wg.Go(func() { s.read(ctx, f) })
		}
	}
}

// read reads one source again and again.
func (s *signalReaders) read(ctx context.Context, f *feed) {
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
		s.readOnce(ctx, f, timeout)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// readOnce reads a source within its time. What a source panics with is a
// failure of the signal.
func (s *signalReaders) readOnce(ctx context.Context, f *feed, timeout time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			now := s.nanos(time.Now())
			f.add(now, now, 0, fmt.Errorf("tuner: source panicked: %v", p))
			s.log.Error("a source of the tuner panicked", slog.String("signal", f.Name), slog.String("stack", string(debug.Stack())))
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
	f.add(s.nanos(now), s.nanos(at), v, err)
}

// close closes the sources that hold connections.
func (s *signalReaders) close() error {
	var errs []error
	for _, f := range s.feeds {
		if c, ok := f.Source.(Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// feed is a signal with what was read of it.
type feed struct {
	Signal

	mu  sync.Mutex // guards sig
	sig *signal.Signal
}

// value returns what the signal says at a moment.
func (f *feed) value(now int64) signal.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sig.Value(now)
}

// add passes a reading on; a failure when err is not nil.
func (f *feed) add(now, at int64, v float64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.sig.Fail(err)
		return
	}
	f.sig.Add(now, at, v)
}
