package arch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every package explains itself exactly once, so that there is one place to
// read and one place to change.
func TestOnePackageComment(t *testing.T) {
	for _, p := range packages(t) {
		var docs []string
		sources := p.sources()
		for _, f := range sources {
			if f.doc == "" {
				continue
			}
			docs = append(docs, f.path)
			if want := "Package " + f.name + " "; f.name != "main" && !strings.HasPrefix(f.doc, want) {
				t.Errorf("%s: package comment starts %q; want %q", f.path, firstLine(f.doc), want+"…")
			}
		}
		if len(sources) > 0 && len(docs) != 1 {
			t.Errorf("package %q has %d package comments %q; want exactly one", p.dir, len(docs), docs)
		}
	}
}

// Tests stand outside the package they test, but for programs, which cannot be
// imported; a rare export_test.go opens one name.
func TestTestsStandOutside(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range p.files {
			if f.test && f.name != "main" && filepath.Base(f.path) != "export_test.go" && !strings.HasSuffix(f.name, "_test") {
				t.Errorf("%s is in package %s; want %s_test", f.path, f.name, f.name)
			}
		}
	}
}

// A protocol is a value: what one of them has and another has not stands in its
// literal, in config and in daemon, and nobody compares its name.
func TestNobodyAsksForTheProtocol(t *testing.T) {
	asks := regexp.MustCompile(`\.Protocol (==|!=) ["p]|switch [a-z.]*\.Protocol`)
	for _, p := range packages(t) {
		if !slices.Contains([]string{"internal/config", "internal/daemon", "internal/daemon/protocol", "internal/admin", "observe", "internal/top", "limiter"}, p.dir) {
			continue
		}
		for _, f := range p.sources() {
			content, err := os.ReadFile(filepath.Join(root, f.path))
			if err != nil {
				t.Fatal(err)
			}
			if found := asks.Find(content); found != nil {
				t.Errorf("%s asks which protocol it has before it: %s", f.path, found)
			}
		}
	}
}

// Nothing in the tree points at a place that exists on one machine only.
func TestNoMachinePaths(t *testing.T) {
	const maxRead = 1 << 20
	// Written in two halves, so that this file passes its own test.
	forbidden := []string{"/root/" + "go", "/Use" + "rs/"}
	checked := 0
	walk(t, func(path string) {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil || info.Size() > maxRead {
			return
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		checked++
		for _, word := range forbidden {
			if before, _, found := bytes.Cut(content, []byte(word)); found {
				t.Errorf("%s:%d: contains %q", path, 1+bytes.Count(before, []byte("\n")), word)
			}
		}
	}, func(string) bool { return false })
	if checked < 10 {
		t.Fatalf("looked at only %d files", checked)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
