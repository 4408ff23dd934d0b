//go:build linux || darwin || freebsd || netbsd || openbsd

package baseline_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/admitd/admitd/internal/baseline"
)

// names lists a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// One at a time has the file, by whatever name; who has it removes what writers that
// were killed have left, and nothing of anybody else.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "state"), filepath.Join(dir, "link")
	if err := os.Symlink("state", link); err != nil {
		t.Fatal(err)
	}
	leave := func(all ...string) {
		for _, name := range all {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave(".state.123", ".state.", ".state.12x", ".state2.123", "state.123")
	unlock, err := baseline.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	leave(".state.124")
	for _, p := range []string{path, link} {
		if _, err := baseline.Lock(p); !errors.Is(err, baseline.ErrInUse) {
			t.Errorf("a second Lock of %s: %v; want %v", p, err, baseline.ErrInUse)
		}
	}
	if got, want := names(t, dir), []string{".state.", ".state.124", ".state.12x", ".state2.123", "link", "state.123", "state.lock"}; !slices.Equal(got, want) {
		t.Errorf("the directory holds %q; want %q", got, want)
	}
	unlock()
	again, err := baseline.Lock(link)
	if err != nil {
		t.Fatalf("Lock of what was given up: %v", err)
	}
	again()
}

// A file that something else wrote is not replaced, also when it came after the start;
// an empty one and an older one of ours are.
func TestWriteLeavesForeignFilesAlone(t *testing.T) {
	for text, want := range map[string]error{
		"": nil, "admitd-state 9 x\n": nil, "admitd": baseline.ErrForeign, "notes of somebody\n": baseline.ErrForeign,
	} {
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := baseline.Write(path, now, baseline.State{Ingresses: learned(1, now)}); !errors.Is(err, want) {
			t.Errorf("Write over %q: %v; want %v", text, err, want)
		}
		b, err := os.ReadFile(path)
		if err != nil || (string(b) == text) != (want != nil) {
			t.Errorf("after Write over %q the file holds %q, %v", text, b, err)
		}
	}
}
