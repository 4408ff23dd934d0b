package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/client/selection"
)

// twin starts a second gate before the same backends.
func (w *world) twin(ctx context.Context) (*world, error) {
	t := *w
	t.gate, t.other, t.admin, t.log, t.undo = freePort(), freePort(), freePort(), &lines{}, nil
	var err error
	if t.dir, err = os.MkdirTemp("", "faults"); err != nil {
		return nil, err
	}
	if err := t.configure(50); err != nil {
		return nil, err
	}
	return &t, t.start(ctx)
}

// chooser says which of two gates an attempt goes to, and is told how it went.
type chooser func(ctx context.Context, a *client.Attempt) (address string, done func(error), err error)

// byHello asks the gates how they are, as the reference client does over HTTP.
func byHello(ctx context.Context, gates []string) (chooser, error) {
	m, err := selection.NewMonitor(gates, selection.MonitorOptions{Seeds: selection.SeedOptions{Heartbeat: selection.MinHeartbeat}})
	if err != nil {
		return nil, err
	}
	go func() { _ = m.Run(ctx) }()
	s := selection.New(m.View(), selection.Options{LeastLoaded: true})
	return func(ctx context.Context, a *client.Attempt) (string, func(error), error) {
		chosen, err := s.Select(ctx, selection.Operation{Name: "ask", Deprioritized: a.Deprioritized(true)})
		if err != nil {
			return "", nil, err
		}
		return chosen.Server.Address, func(err error) {
			if err == nil {
				chosen.Done()
			} else {
				chosen.Failed(err)
			}
		}, nil
	}, nil
}

// byChance takes any that this operation has not failed at.
func byChance(gates []string) chooser {
	return func(_ context.Context, a *client.Attempt) (string, func(error), error) {
		left := slices.DeleteFunc(slices.Clone(gates), func(g string) bool { return slices.Contains(a.Deprioritized(true), g) })
		if len(left) == 0 {
			left = gates
		}
		return left[rand.IntN(len(left))], func(error) {}, nil
	}
}

// pair kills each of two gates in turn and starts it again, while clients of the
// reference library ask: none of them sees an error.
func pair(ctx context.Context, w *world) error {
	t, err := w.twin(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	choose := byChance([]string{w.gate, t.gate})
	if w.name == "http" {
		if choose, err = byHello(asking, []string{w.gate, t.gate}); err != nil {
			return err
		}
	}
	c, err := client.New(client.Options{})
	if err != nil {
		return err
	}
	l := askAll(asking, c, attempt(w, choose))
	for _, g := range []*world{w, t, w, t} {
		if err = fallAndRise(ctx, g); err != nil {
			break
		}
	}
	stop()
	l.wg.Wait()
	if n := l.failed.Load(); err == nil && n > 0 {
		err = fmt.Errorf("%d of %d operations failed: %v", n, l.asked.Load(), l.last.Load())
	}
	if code, ended := t.stop(syscall.SIGTERM); err == nil && (ended != nil || code != 0) {
		err = fmt.Errorf("the second gate ended with %d, %w", code, ended)
	}
	return err
}

// askAll has eight callers of the reference client ask until ctx ends.
func askAll(ctx context.Context, c *client.Client, run func(context.Context, *client.Attempt) error) *load {
	l := &load{}
	for range 8 {
		l.wg.Go(func() {
			for ctx.Err() == nil {
				err := c.Do(ctx, client.Operation{Name: "ask", Kind: client.Read, Run: run})
				if ctx.Err() == nil && err != nil {
					l.failed.Add(1)
					l.last.Store(err.Error())
				}
				l.asked.Add(1)
			}
		})
	}
	return l
}

// attempt asks the gate that was chosen.
func attempt(w *world, choose chooser) func(context.Context, *client.Attempt) error {
	return func(ctx context.Context, a *client.Attempt) error {
		address, done, err := choose(ctx, a)
		if err != nil {
			return err
		}
		a.Server = address
		err = w.once(ctx, address, 5*time.Second)
		done(err)
		if err != nil {
			return &client.Failure{Err: err, Transient: true, Server: address}
		}
		return nil
	}
}

// fallAndRise kills a gate and starts it again once the other has had the load for
// a while, and ends when it has load.
func fallAndRise(ctx context.Context, g *world) error {
	time.Sleep(500 * time.Millisecond)
	if _, err := g.stop(syscall.SIGKILL); err != nil {
		return err
	}
	time.Sleep(700 * time.Millisecond)
	if err := g.start(ctx); err != nil {
		return err
	}
	return g.until(10*time.Second, "the gate has load again", func() error {
		n, err := g.metric(ctx, admitted)
		if err == nil && n == 0 {
			err = errors.New("nobody came")
		}
		return err
	})
}
