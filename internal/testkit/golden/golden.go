// Package golden compares what a test got with a file below testdata. Nothing
// that is shipped imports it.
package golden

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files") //nolint:gochecknoglobals // a flag of the test binary

// Text compares got with testdata/file, which -update rewrites.
func Text(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // a test names its own file
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// Bytes is [Text] of a hex dump, which people can read, of got.
func Bytes(t *testing.T, file string, got []byte) {
	t.Helper()
	Text(t, file, hex.Dump(got))
}
