//go:build unix

package baseline_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/internal/baseline"
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
		if err := baseline.Write(path, now, baseline.State{Ingresses: learned(1, now)}); !errors.Is(err, baseline.ErrForeign) {
			t.Errorf("Write to %s: %v; want %v", before.Mode(), err, baseline.ErrForeign)
		}
		if _, err := baseline.Read(path, now); !errors.Is(err, baseline.ErrForeign) {
			t.Errorf("Read of %s: %v; want %v", before.Mode(), err, baseline.ErrForeign)
		}
		if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s was replaced: %v", before.Mode(), err)
		}
	}
}

// A link stays, and what it leads to is replaced: a state kept elsewhere, on a disk
// that outlives the machine, was written beside it instead.
func TestLinksStay(t *testing.T) {
	for name, first := range map[string]bool{"to a file": true, "to a file that is not there yet": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "disk"), 0o700); err != nil {
				t.Fatal(err)
			}
			kept, link := filepath.Join(dir, "disk", "state"), filepath.Join(dir, "link")
			if first {
				if err := baseline.Write(kept, now, baseline.State{Ingresses: learned(2, now)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(filepath.Join("disk", "state"), link); err != nil {
				t.Fatal(err)
			}
			if err := baseline.Write(link, now, baseline.State{Ingresses: learned(1, now)}); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
				t.Errorf("the link became %v, %v", info.Mode(), err)
			}
			for _, path := range []string{kept, link} {
				st, err := baseline.Read(path, now)
				if all := st.Ingresses; err != nil || len(all) != 1 || len(all[0].Partitions) != 1 {
					t.Errorf("Read of %s = %v, %v; want what was written", path, all, err)
				}
			}
		})
	}
}
