package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/admitd/admitd/config"
)

// TestMain lets tests start this binary as the command admitd: a process of its
// own, with signals and exit codes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"admitd": main})
}

// The command line, as a user meets it.
func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a command and compares its exit code: exits 2 admitd check nowhere.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d; want %d", got, want)
	}
}

// What schema prints is the schema that the loader's own tests hold to account.
func TestSchema(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"schema"}, streams{&out, &out}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(config.Schema()), out.String()); diff != "" {
		t.Errorf("schema (-config.Schema +printed):\n%s", diff)
	}
	var doc map[string]any
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("schema is not JSON: %v", err)
	}
	if _, ok := doc["properties"].(map[string]any)["ingresses"]; !ok {
		t.Errorf("schema describes no ingresses: %v", doc["properties"])
	}
}

// The demo ends by itself, with its table.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for six seconds")
	}
	var out, log bytes.Buffer
	args := []string{"demo", "--for", "6s", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	if err := run(t.Context(), args, streams{&out, &log}); err != nil {
		t.Fatalf("demo: %v\n%s", err, log.String())
	}
	lines := strings.Split(out.String(), "\n")
	if !regexp.MustCompile(`^live page http://127\.0\.0\.1:\d+/$`).MatchString(lines[0]) {
		t.Errorf("the demo begins %q; want the address of the live page", lines[0])
	}
	for _, want := range []string{`good/s\s+of capacity\s+p50\s+p99`, `gate off\s+\d+\s+\d+ %`, `gate on\s+\d+\s+\d+ %`} {
		found := false
		for _, line := range lines {
			found = found || regexp.MustCompile(want).MatchString(line)
		}
		if !found {
			t.Errorf("no line of the demo matches %q:\n%s", want, out.String())
		}
	}
}
