package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// In small, every abuse leaves memory and goroutines bounded and other traffic
// served.
func TestBoundsHold(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a daemon per case: takes half a minute")
	}
	binary := filepath.Join(t.TempDir(), "admitd")
	build := exec.Command("go", "build", "-o", binary, "./cmd/admitd")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	results, err := run(t.Context(), options{
		admitd: binary, keys: 8000, idle: 500, loris: 100, bodies: 20, burst: 50, storm: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 10 {
		t.Errorf("%d cases ran; want at least 10", len(results))
	}
	for _, r := range results {
		if r.others.failed > 0 || r.others.ok == 0 {
			t.Errorf("%s: other traffic: %v; want all served", r.name, r.others)
		}
		if r.rssPeak > 200<<20 || r.rssPeak == 0 {
			t.Errorf("%s: %d MiB; want at most 200", r.name, mib(r.rssPeak))
		}
		if r.goroutinesLeft > 60 || r.goroutinesLeft <= 0 {
			t.Errorf("%s: %d goroutines left; want what an idle daemon has", r.name, r.goroutinesLeft)
		}
		if strings.Contains(r.outcome, "still open") || strings.Contains(r.outcome, "failed") {
			t.Errorf("%s: %s", r.name, r.outcome)
		}
	}
}
