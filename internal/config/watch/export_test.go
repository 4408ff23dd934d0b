package watch

import (
	"context"

	"github.com/fsnotify/fsnotify"
)

// Loop runs the watcher's loop with events and contents of the test's choice.
func (w *Watcher) Loop(ctx context.Context, events <-chan fsnotify.Event, read func(string) ([]byte, error)) {
	w.LoopWith(ctx, events, nil, read, func() {})
}

// LoopWith is Loop with failures of the event source, and what watches it anew.
func (w *Watcher) LoopWith(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, read func(string) ([]byte, error), rewatch func()) {
	w.read = read
	w.loop(ctx, events, errs, rewatch)
}
