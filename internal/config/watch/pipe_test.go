//go:build unix

package watch_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that has become a pipe, to which nobody writes, is one that cannot be read:
// the watcher waited for the pipe, and the daemon at its end for the watcher.
func TestWatcherWaitsForNoPipe(t *testing.T) {
	lost := make(chan error, 1)
	o := polling
	o.Lost = func(err error) { lost <- err }
	h := follow(t, o, plainFile(t))
	if err := unix.Mkfifo(h.path+".pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	rename(t, h.path+".pipe", h.path)
	if err := <-lost; !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("told of %v; want that it is not a file", err)
	}
	write(t, h.path+".next", "two")
	rename(t, h.path+".next", h.path)
	h.want("two")
}
