package daemon

import (
	"context"
	"errors"
	"sync"
)

// actor is a part of the daemon that runs until it is told to stop.
type actor struct {
	name string
	run  func(ctx context.Context) error
}

// runActors runs all until the first returns, or until ctx is done, and then
// stops the others in the order in which they stand: the next is told to stop
// when the one before it has returned. It returns the first error.
func runActors(ctx context.Context, actors []actor) error {
	done := make(chan int, len(actors))
	errs := make([]error, len(actors))
	ended := make([]chan struct{}, len(actors))
	stops := make([]context.CancelFunc, len(actors))
	var wg sync.WaitGroup
	for i, a := range actors {
		actx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stops[i], ended[i] = cancel, make(chan struct{})
		wg.Go(func() {
			defer func() { close(ended[i]); done <- i }()
			errs[i] = a.run(actx)
		})
	}
	select {
	case <-ctx.Done():
	case <-done:
	}
	for i, stop := range stops {
		stop()
		<-ended[i]
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
