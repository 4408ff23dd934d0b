package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
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
	trace := recordTrace(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			env.Setenv("TRACE", trace)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// recordTrace records traffic before a backend of 8 workers, half of the time
// more than it can serve, and returns the file. There are fewer records than a
// recorder buffers, so that none is lost however fast virtual time goes.
func recordTrace(t *testing.T) string {
	t.Helper()
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s *scenario.Scenario) bool { return s.Name == "steady" })
	s, ok := list[i].Variant("1x")
	if !ok {
		t.Fatal("scenario steady has no variant 1x")
	}
	s.For = scenario.Duration(6 * time.Second)
	s.Load = []scenario.LoadStep{{Load: 0.5}, {At: s.For / 2, Load: 2}}
	s.Windows = []scenario.Window{{Name: "all", To: s.For}}
	file, err := os.Create(filepath.Join(t.TempDir(), "orders.trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	recorder := trace.NewRecorder(file, 1<<20)
	policy := &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return algorithms.NewFixed(algorithms.FixedOptions{Limit: 40}) }}}
	if _, err := lab.Play(s, lab.Gated("wide", func(*lab.World) *limiter.Policy { return policy }), 1, lab.PlayOptions{Tracer: recorder}); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil || recorder.Lost() > 0 {
		t.Fatalf("recording: %v, %d records lost", err, recorder.Lost())
	}
	return file.Name()
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
	for _, want := range []string{`good/s\s+of capacity\s+p50\s+p99`, `gate off\s+\d+\s+\d+ %`, `gate on\s+\d+\s+\d+ %`, `^served of each, overload, gate on: tenant-1 \d+ %, tenant-2 \d+ %, tenant-3 \d+ %, storm \d+ %$`, `^Trust good/s and served`, `^Next: .*admitd serve FILE`} {
		found := false
		for _, line := range lines {
			found = found || regexp.MustCompile(want).MatchString(line)
		}
		if !found {
			t.Errorf("no line of the demo matches %q:\n%s", want, out.String())
		}
	}
}
