package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One archive holds what a post-mortem needs, and no secret. The file of tokens is
// the daemon's own, with names: who named it was told that a token is needed.
func TestSnapshot(t *testing.T) {
	const secret = "a-secret-that-must-not-leave"
	dir := t.TempDir()
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte("# on call\nalice "+secret+"\nbob another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := strings.Replace(startBackend(t).URL, "http://", "", 1)
	p := startProcess(t, fmt.Sprintf("admin: { tokenFile: %q }\n", tokenFile)+fmt.Sprintf(orders, "http://"+backend, "1s", 0))
	waitFor(t, "the first second of history", func() bool {
		_, history := p.api(http.MethodGet, "/v1/history", "") // reads are open to this machine
		return strings.Contains(history, `"orders"`)
	})
	out := filepath.Join(dir, "incident.tar.gz")
	var told strings.Builder
	if err := run(t.Context(), []string{"snapshot", "--admin", p.admin, "--token-file", tokenFile, "--out", out}, streams{&told, io.Discard}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(told.String(), out+"\n") {
		t.Errorf("it printed %q; want the name of the file first", told.String())
	}
	got := unpack(t, out)
	for name, want := range map[string]string{
		"MANIFEST": "status.json", "status.json": `"orders"`, "config.json": `"ingresses"`, "history.json": `"orders"`,
		"metrics.txt": "admitd_build_info", "readyz.json": `"ready"`, "goroutines.txt": "goroutine ",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s does not hold %q: %.200s", name, want, got[name])
		}
	}
	for name, content := range got {
		if strings.Contains(content, secret) {
			t.Errorf("%s holds the token", name)
		}
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v, %v; want it for its owner alone", info, err)
	}
	// A device would be replaced for the whole machine.
	if err := run(t.Context(), []string{"snapshot", "--admin", p.admin, "--out", os.DevNull}, streams{io.Discard, io.Discard}); err == nil || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("--out %s: %v; want an error that names it", os.DevNull, err)
	}
	err := run(t.Context(), []string{"snapshot", "--admin", "http://127.0.0.1:1", "--out", filepath.Join(dir, "none")}, streams{io.Discard, io.Discard})
	if exit, ok := errors.AsType[exitError](err); !ok || exit.code != exitUnreachable {
		t.Errorf("without a daemon: %v; want to end with %d", err, exitUnreachable)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "none*")); len(left) > 0 {
		t.Errorf("an archive of nothing is there: %q", left)
	}
}

// unpack reads an archive, by the last part of each name.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(head.Name)] = string(b)
	}
}
