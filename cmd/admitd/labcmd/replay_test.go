package labcmd_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// traced writes the trace of a backend whose requests take 10 ms each and end so,
// 500 of them a second, of one client, for four seconds.
func traced(t *testing.T, o limiter.Outcome) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "orders.trace")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, r := trace.NewSyncRecorder(f), rand.New(rand.NewPCG(1, 1))
	for at := int64(0); at < int64(4*time.Second); at += int64(r.ExpFloat64() * 2e6) {
		w.Offered(at, "a", 1)
		w.Ended(at, at+int64(10*time.Millisecond), 10*time.Millisecond, o)
	}
	return file
}

// rows are the first words of the lines below the header of the last table, and what
// was answered.
func rows(out string) (names, answered []string) {
	_, table, _ := strings.Cut(out, "p99.9")
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 2 {
			names, answered = append(names, f[0]), append(answered, f[1])
		}
	}
	return names, answered
}

// A trace is played through all limits that the lab knows, or those that are asked
// for. The command once ended in a division by the number of gates that it did not
// set, whatever it was asked for.
func TestLabReplay(t *testing.T) {
	file := traced(t, limiter.Success)
	out, err := labCommand(t, "replay", file)
	names, answered := rows(out)
	if want := "recorded none fixed-tuned knee fixed aimd vegas gradient gradient2 knee+queue"; err != nil || strings.Join(names, " ") != want {
		t.Fatalf("%v; played %q, want %q\n%s", err, names, want, out)
	}
	for i, share := range answered {
		if share != "100.00" {
			t.Errorf("%s answers %s %% of what the backend had room for", names[i], share)
		}
	}
	if !strings.Contains(out, "10ms per request") || !strings.Contains(out, "may have more workers") {
		t.Errorf("the model is not that of the trace:\n%s", out)
	}
	out, err = labCommand(t, "replay", file, "--algorithm", "fixed,vegas", "--workers", "2", "--service", "10ms")
	names, _ = rows(out)
	if err != nil || strings.Join(names, " ") != "recorded fixed vegas" || !strings.Contains(out, "2 workers, 10ms per request, so at most 200 ") || strings.Contains(out, "more workers") {
		t.Errorf("two that are asked for, before two workers: %v\n%s", err, out)
	}
	if again, err := labCommand(t, "replay", file, "--algorithm", "fixed,vegas", "--workers", "2", "--service", "10ms"); again != out {
		t.Errorf("the same trace is played otherwise: %v\n%s", err, again)
	}
}

// A configuration is played alone, or beside the limits that are asked for.
func TestLabReplayCandidate(t *testing.T) {
	file := traced(t, limiter.Success)
	config := filepath.Join(t.TempDir(), "admitd.yaml")
	if err := os.WriteFile(config, []byte(candidateConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for more, want := range map[string]string{"": "recorded candidate", "--algorithm=none": "recorded candidate none"} {
		args := append([]string{"replay", file, "--config", config}, strings.Fields(more)...)
		out, err := labCommand(t, args...)
		names, answered := rows(out)
		if err != nil || strings.Join(names, " ") != want || answered[1] == "100.00" {
			t.Errorf("%s: %v; want %s, and two permits be too few\n%s", more, err, want, out)
		}
	}
}

// What cannot be replayed is refused with what it lacks. Of a backend that was down
// for all of the trace the model must be given.
func TestLabReplayRefuses(t *testing.T) {
	down, dir := traced(t, limiter.Dropped), t.TempDir()
	empty := filepath.Join(dir, "empty.trace")
	if err := os.WriteFile(empty, []byte("ADMTRC1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"0 requests were answered in the trace":   {down},
		"there is no algorithm pid":               {down, "--workers", "1", "--service", "1ms", "--algorithm", "vegas,pid"},
		"the trace has no arrivals":               {empty, "--workers", "1", "--service", "1ms"},
		"no such file":                            {filepath.Join(dir, "nowhere")},
		"nowhere.yaml":                            {down, "--workers", "1", "--service", "1ms", "--config", "nowhere.yaml"},
		`invalid argument "soon" for "--service"`: {down, "--service", "soon"},
	} {
		if out, err := labCommand(t, append([]string{"replay"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("replay %q: %v; want %q in it\n%s", args, err, want, out)
		}
	}
	out, err := labCommand(t, "replay", down, "--workers", "8", "--service", "10ms", "--algorithm", "none")
	if _, answered := rows(out); err != nil || strings.Join(answered, " ") != "0.00 100.00" {
		t.Errorf("a backend that was down, as if it were up: %v\n%s", err, out)
	}
}
