package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// provingRange lays the runner of the proving range out with grounds of a test's own,
// by name, and returns what runs it; left is where it leaves its results.
func provingRange(t *testing.T, grounds map[string]string) (run func(env ...string) (said string, passed bool), left string) {
	t.Helper()
	root := t.TempDir()
	for _, file := range []string{"run.sh", "lib.sh", "table.sh"} {
		content, err := os.ReadFile(filepath.Join("../../proving", file))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, "proving", file), string(content))
	}
	for name, script := range grounds {
		writeFile(t, filepath.Join(root, "proving", name, "ground.sh"), script+"main \"$@\"\n")
	}
	return func(env ...string) (string, bool) {
		cmd := exec.Command("bash", filepath.Join(root, "proving/run.sh"))
		ours := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PROVE_") })
		cmd.Env = append(append(ours, "PROVE_CACHE="+filepath.Join(root, "cache")), env...)
		// To a file: a pipe is read until all who have it have ended, whom a run leaves behind too.
		out, err := os.Create(filepath.Join(root, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		err = cmd.Run()
		text, _ := os.ReadFile(out.Name())
		return string(text), err == nil
	}, root
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A ground that failed, and of which the second try could fetch nothing any more, was
// counted as skipped: the run ended well, and the defect was in no line of it.
func TestProvingFailureIsNotSkippedAway(t *testing.T) {
	run, root := provingRange(t, map[string]string{"moody": `# limits: fetch 60 s, prove 60 s
source "$PROVE_LIB"
fetch() { [[ ! -e $PROVE_OUT/tried ]] || { echo "its server is gone" >&2; return 1; }; }
prove() { touch "$PROVE_OUT/tried"; cell client 1.0 bash -c 'echo ok asked; echo not ok answered; exit 1'; }
`})
	said, passed := run("PROVE_TRIES=2")
	if passed || !strings.Contains(said, "0 passed, 1 failed, 1 skipped") {
		t.Errorf("want the failure of the first try to count, got:\n%s", said)
	}
	rows, err := os.ReadFile(filepath.Join(root, "bin/proving/moody.tsv"))
	if err != nil || !strings.Contains(string(rows), "moody\tclient\t1.0\tasked\t") {
		t.Errorf("want the row of the cell that failed, got %q, %v", rows, err)
	}
}

// A ground that was not done in time was stopped, but not the client that it was waiting
// for: that one talked on to whatever came next. On a machine that is so busy that the
// client has not begun within the limit, the ground has a longer one.
func TestProvingStopsTheClientOfAGroundThatIsLate(t *testing.T) {
	for _, limit := range []string{"2", "20", "60"} {
		run, root := provingRange(t, map[string]string{"late": "# limits: fetch 60 s, prove " + limit + ` s
source "$PROVE_LIB"
fetch() { :; }
prove() { cell client 1.0 bash -c 'echo $$ >"$PROVE_OUT/client"; exec sleep 600'; cell never 1.0 echo ok; }
`})
		said, passed := run("PROVE_CELL_S=500")
		if passed || !strings.Contains(said, "FAIL late: not done after "+limit+" s") {
			t.Fatalf("want it to be said that the ground is late, got:\n%s", said)
		}
		pid, err := os.ReadFile(filepath.Join(root, "bin/proving/client"))
		if err != nil || len(pid) == 0 {
			continue
		}
		if cmdline, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "cmdline")); err == nil && strings.HasPrefix(string(cmdline), "sleep") {
			t.Errorf("the client %s still runs", pid)
		}
		return
	}
	t.Fatal("the client never began")
}

// The end of a run says for each ground what passed, and what was not run and why: what
// was skipped, what a row of the document has and the run has not, what was not asked for.
// The document says so too, and keeps what was seen before.
func TestProvingSaysWhatWasNotRun(t *testing.T) {
	run, root := provingRange(t, map[string]string{
		"good": `# limits: fetch 60 s, prove 60 s
source "$PROVE_LIB"
fetch() { :; }
prove() { cell client 1.0 echo ok asked; skip good-rust "needs Rust"; cell other 1.0 bash -c 'echo skip needs a moon; exit 3'; }
`,
		"far": `# limits: fetch 60 s, prove 60 s
source "$PROVE_LIB"
fetch() { echo "no such host" >&2; return 1; }
`,
	})
	const table = "<!-- table: written by make prove-table -->\n| ground | version | proven | date | result |\n|---|---|---|---|---|\n"
	const before = table + "| far-client | 2 | flown | 2020-01-01 | passed |\n| good-gone | 1 | seen | 2020-01-01 | passed |\n" +
		"| good-old |  |  | 2020-01-01 | skipped: no time |\n| good-other | 1 | seen | 2020-01-01 | passed |\n<!-- end of the table -->\n"
	writeFile(t, filepath.Join(root, "docs/proving.md"), before)
	said, passed := run()
	said = strings.Join(strings.Fields(said), " ")
	for _, line := range []string{
		"far 0 0 1 ", "far: cannot be fetched: no such host",
		"good 1 0 2 ", "good-rust: needs Rust; good-other: needs a moon; not reached: good-gone",
		"1 passed, 0 failed, 3 skipped",
	} {
		if !passed || !strings.Contains(said, line) {
			t.Errorf("want %q, got:\n%s", line, said)
		}
	}
	if out, err := exec.Command("bash", filepath.Join(root, "proving/table.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after, err := os.ReadFile(filepath.Join(root, "docs/proving.md"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(after), "\n")
	for _, row := range []string{
		"| far-client | 2 | flown | 2020-01-01 | passed |", "| good-gone | 1 | seen | 2020-01-01 | passed |",
		"| good-other | 1 | seen | 2020-01-01 | passed; skipped: needs a moon on ",
	} {
		if !strings.Contains(string(after), row) {
			t.Errorf("want the row %q, got:\n%s", row, after)
		}
	}
	if strings.Contains(string(after), "good-old") || len(got) != 3+6+2 {
		t.Errorf("want the reasons of this run in place of older ones, got:\n%s", after)
	}
}
