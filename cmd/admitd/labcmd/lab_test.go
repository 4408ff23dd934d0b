package labcmd_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/admitd/admitd/cmd/admitd/labcmd"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// quickScenario ends in a moment and judges one thing.
const quickScenario = `
name: quick
about: Ten seconds of twice the capacity.
for: 10s
seeds: 1
load: [{ at: 0s, load: 2 }]
windows: [{ name: all, from: 2s, to: 10s }]
pass: [{ measure: goodput, atLeast: 0.9, by: [BY] }]
`

// quick writes the scenario with a criterion for one contender.
func quick(t *testing.T, by string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "quick.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(quickScenario, "BY", by)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// labCommand runs one command line of the lab.
func labCommand(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := labcmd.New(&out, &log)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// A run prints tables and verdicts, and its exit status is that of the criteria.
func TestLabRunIsJudged(t *testing.T) {
	out, err := labCommand(t, "run", "--file", quick(t, "vegas"), "--algorithm", "vegas,none")
	if err != nil || !strings.Contains(out, "pass  quick, default: goodput ≥ 0.9 by vegas; kept by vegas") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = labCommand(t, "run", "--file", quick(t, "none"), "--algorithm", "vegas,none")
	if !errors.Is(err, labcmd.ErrNotKept) || !strings.Contains(out, "FAIL  quick, default") {
		t.Errorf("a criterion that is not kept: %v\n%s", err, out)
	}
}

// The results of a run can be compared and reported later, and give the same
// report.
func TestLabResultsAreKept(t *testing.T) {
	file, dir := quick(t, "vegas"), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	direct, err := labCommand(t, "report", "--file", file, "--results", at("a.json"), "--html", at("a.html"), "--json", at("r.json"))
	if err != nil {
		t.Fatal(err)
	}
	later, err := labCommand(t, "report", "--file", file, "--from", at("a.json"))
	if err != nil || later != direct {
		t.Errorf("a report of kept results differs: %v\n%s", err, later)
	}
	for _, name := range []string{"a.html", "r.json"} {
		if info, err := os.Stat(at(name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s was not written: %v", name, err)
		}
	}
	same, err := labCommand(t, "compare", at("a.json"), at("a.json"))
	if err != nil || same != "0 measures changed\n" {
		t.Errorf("compare with itself: %v\n%s", err, same)
	}
	if _, err := labCommand(t, "run", "--file", file, "--seed", "9", "--results", at("b.json")); err != nil {
		t.Fatal(err)
	}
	if other, err := labCommand(t, "compare", at("a.json"), at("b.json")); err != nil || !strings.Contains(other, "goodput") {
		t.Errorf("compare with another seed: %v\n%s", err, other)
	}
}

// What is asked for wrongly is refused with the value that is wrong.
func TestLabRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"there is no scenario nowhere":          {"run", "--scenario", "nowhere"},
		"no contender pid":                      {"run", "--scenario", "steady", "--algorithm", "pid"},
		"nowhere.json":                          {"compare", "nowhere.json", "nowhere.json"},
		"has no variant 3x":                     {"live", "--target", "http://127.0.0.1:1/", "--capacity", "1", "--variant", "3x"},
		"target must be an http:// or https://": {"live", "--target", "127.0.0.1:1", "--capacity", "1"},
		`required flag(s) "target"`:             {"live"},
		"contender of [vegas pid] is known as":  {"run", "--file", quick(t, "vegas"), "--algorithm", "vegas,pid"},
		"variant of [default 3x] is known as":   {"run", "--file", quick(t, "vegas"), "--variant", "default,3x"},
		"no variant of [3x]":                    {"run", "--file", quick(t, "vegas"), "--variant", "3x"},
		"nowhere.yaml":                          {"run", "--file", "nowhere.yaml"},
		`by must be of`:                         {"run", "--file", quick(t, "pid")},
		`unknown flag: --algo`:                  {"run", "--algo", "vegas"},
		`invalid argument "many" for "--seeds"`: {"run", "--seeds", "many"},
		`unknown command "steady"`:              {"run", "steady"},
		"a/r.json cannot be written":            {"run", "--file", quick(t, "vegas"), "--results", "a/r.json"},
		"a/r.html cannot be written":            {"run", "--file", quick(t, "vegas"), "--html", "a/r.html"},
		"what is found cannot be written":       {"falsify", "--out", "a/b"},
		"a search needs rounds or a time":       {"falsify", "--for", "0s"},
		"invalid character":                     {"compare", quick(t, "vegas"), quick(t, "vegas")},
		"accepts 2 arg(s), received 1":          {"compare", "a.json"},
		"nowhere.trace":                         {"replay", "nowhere.trace"},
		"not a trace":                           {"replay", quick(t, "vegas")},
	} {
		_, err := labCommand(t, args...)
		if want == "no contender pid" {
			want = "contender of [pid] is known"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v; want %q in it", strings.Join(args, " "), err, want)
		}
	}
}

// Results are reported on with the scenario that they are of. Those of a file that
// has other windows by now once brought the report down.
func TestLabResultsOfAnotherVersion(t *testing.T) {
	file, dir := quick(t, "vegas"), t.TempDir()
	old := filepath.Join(dir, "old.json")
	if _, err := labCommand(t, "run", "--file", file, "--algorithm", "vegas", "--results", old); err != nil {
		t.Fatal(err)
	}
	for name, windows := range map[string]string{
		"one more":    "windows: [{ name: all, from: 2s, to: 10s }, { name: late, from: 5s, to: 10s }]",
		"one renamed": "windows: [{ name: late, from: 2s, to: 10s }]",
	} {
		text := strings.ReplaceAll(quickScenario, "BY", "vegas")
		text = strings.Replace(text, "windows: [{ name: all, from: 2s, to: 10s }]", windows, 1)
		other := filepath.Join(dir, "other.yaml")
		if err := os.WriteFile(other, []byte(strings.Replace(text, "measure:", "window: late, measure:", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"report", "--file", other, "--from", old}, {"run", "--file", other, "--algorithm", "none", "--peers", old}} {
			if _, err := labCommand(t, args...); err == nil || !strings.Contains(err.Error(), "results of quick, default are of another version of the scenario: they have windows [all]") {
				t.Errorf("%s, %s: %v; want the other version named", name, args[0], err)
			}
		}
	}
	stranger := filepath.Join(dir, "stranger.json")
	b, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stranger, []byte(strings.ReplaceAll(string(b), `"contender":"vegas"`, `"contender":"theirs"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := labCommand(t, "compare", old, stranger); err == nil || !strings.Contains(err.Error(), "no variant and contender in common") {
		t.Errorf("compare of two that have nothing in common: %v\n%s", err, out)
	}
	out, err := labCommand(t, "run", "--file", file, "--algorithm", "none,vegas", "--peers", stranger)
	if err != nil || !strings.Contains(out, "kept by vegas, theirs") {
		t.Errorf("results of others beside one's own: %v\n%s", err, out)
	}
}

// Whoever interrupts a run keeps the results of the run before.
func TestLabIsInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log bytes.Buffer
	cmd := labcmd.New(&out, &log)
	cmd.SetArgs([]string{"run", "--file", quick(t, "vegas"), "--results", file})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that is interrupted ends with %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "before" || out.Len() > 0 {
		t.Errorf("the file is %q, %v, and %q was printed; want it as it was", b, err, out.String())
	}
}

// The same seed plays the same, whatever the number of workers, and says so to the
// last byte.
func TestLabIsReproducible(t *testing.T) {
	dir := t.TempDir()
	play := func(name, seed string) string {
		file := filepath.Join(dir, name)
		if _, err := labCommand(t, "run", "--file", quick(t, "vegas"), "--algorithm", "vegas,knee+queue,aimd", "--seed", seed, "--results", file); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := play("a", "5")
	if again := play("b", "5"); again != first {
		t.Error("two runs of one seed differ")
	}
	if other := play("c", "6"); other == first {
		t.Error("another seed plays the same")
	}
}

// candidateConfig is a configuration whose limit is far too low.
const candidateConfig = `
ingresses:
  - name: orders
    protocol: http
    listen: 127.0.0.1:0
    backend: http://127.0.0.1:1
    partitions: { default: { limit: { algorithm: fixed, limit: 2 }, queue: { depth: 0 } } }
`

// A configuration competes with the limits that it says.
func TestLabCandidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admitd.yaml")
	if err := os.WriteFile(file, []byte(candidateConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := labcmd.Candidate(file, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse([]byte(quickScenario[:strings.Index(quickScenario, "pass:")]))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := s.Variant("default")
	r, err := lab.Play(v, c, 1, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Two permits of 10 ms are 200 requests/s of 800.
	if goodput, _ := r.Value("goodput", ""); goodput < 0.23 || goodput > 0.26 {
		t.Errorf("goodput is %.3f of the capacity; want about 0.25", goodput)
	}
	if _, err := labcmd.Candidate(file, "payments"); err == nil || !strings.Contains(err.Error(), "--ingress") {
		t.Errorf("an ingress that is not there: %v", err)
	}
}

// The table of what happens goes between its lines of a document, and nothing
// else of it changes.
func TestLabInsertsItsTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	text := func(table string) string {
		return "before\n<!-- lab: begin -->\n" + table + "<!-- lab: end -->\nafter\n"
	}
	if err := os.WriteFile(file, []byte(text("old\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"report", "--scenario", "mix", "--algorithm", "fixed", "--seeds", "1", "--out", filepath.Join(t.TempDir(), "r.md"), "--insert", file}
	for range 2 { // the second time over its own table
		_, err := labCommand(t, args...)
		if err != nil && !errors.Is(err, labcmd.ErrNotKept) { // what fixed does is not the point
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "begin -->\n")
		table, _, _ := strings.Cut(rest, "<!-- lab: end")
		if string(b) != text(table) || strings.Count(table, "more of the requests are slow ones") != 1 || strings.Contains(table, "old") {
			t.Errorf("the document is now\n%s", b)
		}
	}
	if err := os.WriteFile(file, []byte("no lines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := labCommand(t, args...); err == nil || !strings.Contains(err.Error(), "has no lines") {
		t.Errorf("a document without the lines: %v", err)
	}
}
