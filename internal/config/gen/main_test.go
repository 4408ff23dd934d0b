package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is committed is what the source says now.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	out, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range out {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), string(want)); diff != "" {
			t.Errorf("%s is not current; run go generate ./internal/config (-file +generated):\n%s", name, diff)
		}
	}
}

// Every key has a comment, or the reference would be a list of names.
func TestEveryKeyIsExplained(t *testing.T) {
	m, err := read("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(m) < 20 {
		t.Fatalf("read %d objects; want all of them", len(m))
	}
	for name, o := range m {
		if !strings.HasPrefix(o.doc, name+" ") {
			t.Errorf("%s: comment %q does not begin with its name", name, o.doc)
		}
		for _, f := range o.fields {
			if !strings.HasSuffix(f.doc, ".") || f.name == "" {
				t.Errorf("%s.%s: comment %q is not a sentence", name, f.name, f.doc)
			}
		}
	}
}

// run writes both files, into directories that exist.
func TestRunWrites(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"internal/config", "docs"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	src := "package config\n\n// Config is all.\ntype Config struct {\n\t// Word of one's own.\n\tWord string `yaml:\"word\" default:\"x\" reload:\"restart\"`\n}\n"
	if err := os.WriteFile(filepath.Join(root, "internal", "config", "config.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(filepath.Join(root, "internal", "config")); err != nil {
		t.Fatal(err)
	}
	md, err := os.ReadFile(filepath.Join(root, "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	if row := "| `word` | text | `x` | Word of one's own. Reload: none, it takes a restart. |"; !strings.Contains(string(md), row) {
		t.Errorf("docs/config.md has no row %s:\n%s", row, md)
	}
	if err := run(root); err == nil {
		t.Error("run in a directory without Config: no error")
	}
}
