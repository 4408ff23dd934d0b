package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/admitd/admitd/internal/config"
)

// Hash identifies content that was loaded.
type Hash [sha256.Size]byte

// HashOf returns the hash of content.
func HashOf(content []byte) Hash { return sha256.Sum256(content) }

// Options tunes a [Watcher]. The zero value is ready for use.
type Options struct {
	// Settle is how long the directory must be quiet before the file is read;
	// 0 = 500 ms. A file that is rewritten in place with a pause as long may be
	// read in parts: replace it by renaming.
	Settle time.Duration
	// MaxSettle bounds how long a busy directory can postpone the read;
	// 0 = 5 s.
	MaxSettle time.Duration
	// Poll is how often the file is read without any event, which finds what
	// no event tells of: a link whose target lies elsewhere; 0 = 2 s.
	Poll time.Duration
	// Lost is told, once each time, when the file could not be read or was empty
	// for two looks in a row; nil = nobody is.
	Lost func(err error)
}

// Watcher calls a function whenever a configuration file has new content. It
// survives replacement by rename, swapped symlinks (Kubernetes), editors that
// move the old file away, files that are written slowly, empty, or gone for a
// while.
//
// It watches the directory, never the file: a watch on a file follows the file
// that was moved away. An event only says that it is worth reading again.
type Watcher struct {
	path  string
	mu    sync.Mutex // guards last
	last  Hash       // of the content that was last read, here or elsewhere
	apply func(content []byte) error
	read  func(path string) ([]byte, error)
	o     Options
	c     counters
	blind int // looks in a row that found nothing to read; of the loop
}

// errEmpty is told of a file with nothing in it.
var errEmpty = errors.New("watch: the file is empty")

// Stats counts what a [Watcher] saw. All are totals.
type Stats struct {
	Applied    uint64 // new content that was accepted
	Refused    uint64 // new content that was refused
	Empty      uint64 // reads that found nothing in the file, and were ignored
	Unreadable uint64 // reads that failed, and were ignored
	Unchanged  uint64 // reads that found what was there before
	Errors     uint64 // failures of the event source; polling goes on
}

type counters struct {
	applied, refused, empty, unreadable, unchanged, errors atomic.Uint64
}

// New returns a watcher of the file at path. loaded is the hash of the
// content that is in use already, so that a change between that load and now
// is not lost. apply is called with new content, never concurrently; when it
// returns an error the content counts as refused, and is not offered again
// until it changes. The content is apply's to keep.
func New(path string, loaded Hash, apply func(content []byte) error, o Options) *Watcher {
	if o.Settle <= 0 {
		o.Settle = 500 * time.Millisecond
	}
	if o.MaxSettle <= 0 {
		o.MaxSettle = 5 * time.Second
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	return &Watcher{path: path, last: loaded, apply: apply, read: config.Reread, o: o}
}

// Stats returns the counts so far. It may be called at any time.
func (w *Watcher) Stats() Stats {
	return Stats{
		Applied: w.c.applied.Load(), Refused: w.c.refused.Load(), Empty: w.c.empty.Load(),
		Unreadable: w.c.unreadable.Load(), Unchanged: w.c.unchanged.Load(), Errors: w.c.errors.Load(),
	}
}

// Run watches until ctx is done, and returns nil then. Where the system has no
// watches to give, it polls.
func (w *Watcher) Run(ctx context.Context) error {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		w.c.errors.Add(1)
		w.loop(ctx, nil, nil, func() {})
		return nil
	}
	defer n.Close()
	dir := filepath.Dir(w.path)
	// A directory that is removed takes its watch with it, and one that comes
	// back must be watched anew. Adding it twice does no harm.
	rewatch := func() {
		if n.Add(dir) != nil {
			w.c.errors.Add(1)
		}
	}
	w.loop(ctx, n.Events, n.Errors, rewatch)
	return nil
}

// loop reads the file when the directory has been quiet, when it was busy for
// too long, and at every poll. The first read comes at once: the file may have
// changed since it was loaded.
func (w *Watcher) loop(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, rewatch func()) {
	rewatch()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var since time.Time // first event that is not answered yet
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
			}
		case _, ok := <-errs:
			w.c.errors.Add(1)
			if !ok {
				errs = nil
			}
		case <-timer.C:
			since = time.Time{}
			rewatch()
			w.look()
			timer.Reset(w.o.Poll)
			continue
		}
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		timer.Reset(min(w.o.Settle, max(0, w.o.MaxSettle-now.Sub(since))))
	}
}

// Saw notes that the content with this hash was read, here or by somebody else
// who then put it in force or refused it, and reports whether it is another than
// the one before. The zero Hash stands for a file that could not be read: what
// is found next counts as new. It is safe for concurrent use.
func (w *Watcher) Saw(h Hash) (isNew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isNew = h != w.last
	w.last = h
	return isNew
}

// look reads the file once and hands on new content.
func (w *Watcher) look() {
	content, err := w.read(w.path)
	switch {
	case err != nil:
		w.c.unreadable.Add(1)
	case len(bytes.TrimSpace(content)) == 0: // truncated, and about to be written: it is never meant
		w.c.empty.Add(1)
		err = errEmpty
	}
	if err != nil {
		if w.blind++; w.blind == 2 && w.o.Lost != nil {
			w.o.Lost(err)
		}
		return
	}
	w.blind = 0
	if !w.Saw(HashOf(content)) {
		w.c.unchanged.Add(1)
		return
	}
	if w.apply(content) != nil {
		w.c.refused.Add(1)
		return
	}
	w.c.applied.Add(1)
}
