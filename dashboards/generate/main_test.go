package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed JSON is what the generator writes, byte for byte, and nothing
// else lies beside it.
func TestRegeneratingChangesNothing(t *testing.T) {
	const committed = "../boards"
	fresh := t.TempDir()
	if err := run([]string{fresh}); err != nil {
		t.Fatalf("run: %v", err)
	}
	names := map[string]bool{}
	for _, dir := range []string{committed, fresh} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatalf("ReadDir: %v", err)
		}
		for _, e := range entries {
			names[e.Name()] = true
		}
	}
	if len(names) != 5 {
		t.Errorf("%d boards; want 5: %v", len(names), names)
	}
	for name := range names {
		want, err := os.ReadFile(filepath.Join(fresh, name))
		if err != nil {
			t.Errorf("the generator does not write %s", name)
			continue
		}
		got, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("boards/%s is not what the generator writes (%v): run go generate ./dashboards", name, err)
		}
	}
}

// Lines of panels fill the width, or Grafana leaves holes.
func TestLinesAreFull(t *testing.T) {
	for _, b := range boards() {
		for _, r := range b.rows {
			used := uint32(0)
			for _, p := range r.panels {
				if used += p.w; used > 24 {
					t.Errorf("%s, %s: %q sticks out of its line", b.title, r.title, p.title)
				}
				used %= 24
			}
			if used != 0 {
				t.Errorf("%s, %s: the last line is %d of 24 wide", b.title, r.title, used)
			}
		}
	}
}

// A build error reaches the caller, so that a bad board is never written.
func TestBadDirectory(t *testing.T) {
	if err := run([]string{filepath.Join(t.TempDir(), "missing")}); err == nil {
		t.Error("run into a missing directory: no error")
	}
	if err := run(nil); err == nil {
		t.Error("run without a directory: no error")
	}
}
