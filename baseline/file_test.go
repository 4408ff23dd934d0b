//go:build unix

package baseline_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/baseline"
)

// What is no file is neither read nor replaced: a pipe was waited for, and a
// stateFile of /dev/null took that from the whole machine.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir} {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := baseline.Write(path, now, learned(1, now)); !errors.Is(err, baseline.ErrForeign) {
			t.Errorf("Write to %s: %v; want %v", before.Mode(), err, baseline.ErrForeign)
		}
		if _, _, err := baseline.Read(path, now); !errors.Is(err, baseline.ErrForeign) {
			t.Errorf("Read of %s: %v; want %v", before.Mode(), err, baseline.ErrForeign)
		}
		if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s was replaced: %v", before.Mode(), err)
		}
	}
}
