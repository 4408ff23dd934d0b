package watch

import (
	"context"

	"github.com/fsnotify/fsnotify"
)

// Loop runs the watcher's loop with events and contents of the test's choice.
func (w *Watcher) Loop(ctx context.Context, events <-chan fsnotify.Event, read func(string) ([]byte, error)) {
	w.read = read
	w.loop(ctx, events, nil, func() {})
}
