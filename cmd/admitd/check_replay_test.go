package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// recordedTraffic writes a trace of five seconds in which 400 requests a second
// took 10 ms each.
func recordedTraffic(t *testing.T) string {
	t.Helper()
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	const apart, took = 2500 * time.Microsecond, 10 * time.Millisecond
	for n := range 2000 {
		now := int64(time.Second) + int64(n)*int64(apart)
		if start := now - int64(took); n >= 4 {
			w.Ended(start, now, took, limiter.Success)
		}
		w.Offered(now, "a", 1)
	}
	path := filepath.Join(t.TempDir(), "orders.trace")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A change of limits is judged by recorded traffic, as a document too: the table
// was printed for people alone, behind a document of its own that said nothing
// of it.
func TestCheckReplayAsJSON(t *testing.T) {
	traffic := recordedTraffic(t)
	limited := func(n int) string {
		path := filepath.Join(t.TempDir(), "admitd.yaml")
		text := fmt.Sprintf("ingresses: [{ name: orders, listen: \"127.0.0.1:0\", backend: \"http://127.0.0.1:9\", partitions: { default: { limit: { algorithm: fixed, limit: %d } } } }]\n", n)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	running := limited(100)
	for next, worse := range map[string]bool{limited(50): false, limited(1): true} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"check", "--json", "--replay", traffic, "--against", running, next}, streams{&out, io.Discard})
		if code, refused := errors.AsType[exitError](err); refused != worse || refused && code.code != exitInvalid {
			t.Errorf("check = %v; want that it fails: %v", err, worse)
		}
		var doc struct {
			Valid    bool
			Problems []string
			Replay   replayDocument
		}
		d := json.NewDecoder(&out)
		if err := d.Decode(&doc); err != nil || d.More() {
			t.Fatalf("the document: %v, more of them: %v", err, d.More())
		}
		r := doc.Replay
		if !doc.Valid || r.File != next || r.Against != running || r.Worse != worse || len(r.Rows) != 5 {
			t.Fatalf("the document says %+v; want %s against %s, worse: %v", doc, next, running, worse)
		}
		good := r.Rows[0]
		if good.Measure != "goodput" || good.Running < 300 || good.Worse != worse || good.Allowed == nil || *good.Allowed != 0.02 || (good.New < good.Running) != worse {
			t.Errorf("goodput: %+v; want some 400 a second, worse: %v", good, worse)
		}
	}
}
