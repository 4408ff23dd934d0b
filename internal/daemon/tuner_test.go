package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tuned is a configuration with a threshold policy on a document that a test
// serves.
func tunerGate(mode, url string) string {
	return fmt.Sprintf(`
admin: { listen: "127.0.0.1:0" }
tuner:
  mode: %s
  signals: [{ name: lag, source: http, url: %q, path: lag, every: 1s, timeout: 500ms, maxAge: 3s }]
  policies: [{ name: guard, signal: lag, above: 10, below: 3, adjust: orders.requests.rate, min: 10, max: 500, step: 0.9, cooldown: 1s }]
ingresses: [{ name: orders, requests: { rate: 100 } }]
`, mode, url)
}

// tunerState is what the admin port says, as far as these tests read it.
type tunerState struct {
	Hold    string
	Signals []struct{ Trusted bool }
	Records []struct {
		ID, Kind string
		New      float64
	}
	Settings []struct {
		Value, Base float64
		ByHand      bool
	}
}

func (r *running) tuner() (s tunerState) {
	r.t.Helper()
	status, answer := r.ask(http.MethodGet, "/v1/tuner", "")
	if err := json.Unmarshal([]byte(answer), &s); status != http.StatusOK || err != nil {
		r.t.Fatalf("GET /v1/tuner = %d %s (%v)", status, answer, err)
	}
	return s
}

// await asks until the state is as wanted.
func (r *running) await(what string, wanted func(tunerState) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if wanted(r.tuner()) {
			return
		}
	}
	r.t.Fatalf("never %s: %+v", what, r.tuner())
}

// The tuner of a daemon moves settings through the door that people use, holds
// still when its source dies, is frozen and reverted over the admin port, and
// begins from the file after a reload.
func TestTunerOfADaemon(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	var lag atomic.Int64
	lag.Store(20)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, fmt.Sprintf(`{"lag": %d}`, lag.Load()))
	}))
	t.Cleanup(source.Close)
	r := run(t, tunerGate("act", source.URL))
	value := func(v float64) func(tunerState) bool {
		return func(s tunerState) bool { return len(s.Settings) == 1 && s.Settings[0].Value == v }
	}
	r.await("lowered to its bound", value(10))
	if _, answer := r.ask(http.MethodGet, "/v1/config", ""); !strings.Contains(answer, `"rate":10,`) && !strings.Contains(answer, `"rate": 10,`) {
		t.Errorf("the configuration in force does not show the rate: %s", answer)
	}
	if status, answer := r.ask(http.MethodPost, "/v1/tuner/freeze", ""); status != http.StatusOK {
		t.Fatalf("freeze = %d %s", status, answer)
	}
	if status, answer := r.ask(http.MethodPost, "/v1/tuner/revert", ""); status != http.StatusOK || !strings.Contains(answer, "orders.requests.rate") {
		t.Fatalf("revert = %d %s", status, answer)
	}
	if s := r.tuner(); s.Hold != "frozen" || !value(100)(s) || !s.Settings[0].ByHand {
		t.Errorf("after freeze and revert: %+v; want 100, left alone", s)
	}
	if status, _ := r.ask(http.MethodPost, "/v1/tuner/revert/9999", ""); status != http.StatusNotFound {
		t.Errorf("revert of nothing = %d; want 404", status)
	}
	if status, _ := r.ask(http.MethodPost, "/v1/tuner/unfreeze", ""); status != http.StatusOK {
		t.Errorf("unfreeze = %d; want 200", status)
	}
	r.await("lowered again", value(10))
	source.Close()
	r.await("blind", func(s tunerState) bool { return !s.Signals[0].Trusted && s.Records[0].Kind == "blind" })
	if _, answer := r.ask(http.MethodGet, "/v1/status", ""); !strings.Contains(answer, `"tuner":{"mode":"act"`) || !strings.Contains(answer, `"held":["guard"]`) {
		t.Errorf("the status does not tell of a tuner that is blind: %s", answer)
	}
	if !value(10)(r.tuner()) {
		t.Errorf("blind: %+v; want the setting where it was", r.tuner())
	}
	r.reload(tunerGate("advise", "http://127.0.0.1:1"))
	r.await("begun from the file, with its records", func(s tunerState) bool { return value(100)(s) && len(s.Records) > 0 })
}

// A daemon without a tuner says so, and one whose signals cannot be built does
// not take the configuration.
func TestNoTuner(t *testing.T) {
	r := run(t, "admin: { listen: \"127.0.0.1:0\" }\ningresses: [{ name: orders }]\n")
	for _, path := range []string{"/v1/tuner", "/v1/tuner/records/1"} {
		if status, answer := r.ask(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("GET %s = %d %s; want 404", path, status, answer)
		}
	}
	for _, path := range []string{"/v1/tuner/freeze", "/v1/tuner/unfreeze", "/v1/tuner/revert"} {
		if status, answer := r.ask(http.MethodPost, path, ""); status != http.StatusNotFound {
			t.Errorf("POST %s = %d %s; want 404", path, status, answer)
		}
	}
	r.write("admin: { listen: \"127.0.0.1:0\" }\ntuner: { signals: [{ name: a, source: http, url: \"http://h\", path: \"a..b\" }] }\ningresses: [{ name: orders }]\n")
	if err := r.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "a..b") {
		t.Errorf("Reload = %v; want that the path is refused", err)
	}
}

// A freeze was forgotten by a restart: the state file keeps it, at once, and what
// people took back too.
func TestFreezeOutlivesARestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	text := "stateFile: " + state + tunerGate("act", "http://127.0.0.1:1")
	r := run(t, text)
	if status, answer := r.ask(http.MethodPost, "/v1/tuner/freeze", ""); status != http.StatusOK {
		t.Fatalf("freeze = %d %s", status, answer)
	}
	var kept []byte
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(string(kept), `"frozen"`); time.Sleep(10 * time.Millisecond) {
		if kept, _ = os.ReadFile(state); time.Now().After(deadline) {
			t.Fatalf("never in the state file: %s", kept)
		}
	}
	other := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(other, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	again := run(t, strings.Replace(text, state, other, 1))
	again.await("frozen as before", func(s tunerState) bool { return s.Hold == "frozen" })
	if status, _ := again.ask(http.MethodPost, "/v1/tuner/unfreeze", ""); status != http.StatusOK || again.tuner().Hold == "frozen" {
		t.Errorf("unfreeze = %d, %+v; want it released", status, again.tuner())
	}
}

// Two daemons do not keep their state in one file: the second reads it, says that it
// is another's, and changes nothing in it. It wiped what the first had kept.
func TestOneDaemonKeepsAStateFile(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	text := "stateFile: " + state + tunerGate("act", "http://127.0.0.1:1")
	readyz := func(r *running) string {
		_, answer := r.ask(http.MethodGet, "/readyz", "")
		return answer
	}
	first := run(t, text)
	var kept []byte
	for deadline := time.Now().Add(20 * time.Second); len(kept) == 0; time.Sleep(10 * time.Millisecond) {
		if kept, _ = os.ReadFile(state); time.Now().After(deadline) {
			t.Fatal("the first daemon never wrote the file")
		}
	}
	second := run(t, strings.Replace(text, "orders", "other", -1))
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(readyz(second), "another daemon keeps its state in this file"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the second daemon says %s; want that the file is another's", readyz(second))
		}
	}
	if now, err := os.ReadFile(state); err != nil || !bytes.Equal(now, kept) {
		t.Errorf("the file holds %q, %v; want what the first daemon wrote, %q", now, err, kept)
	}
	if answer := readyz(first); strings.Contains(answer, "state file") {
		t.Errorf("the first daemon says %s; want nothing of the file", answer)
	}
}
