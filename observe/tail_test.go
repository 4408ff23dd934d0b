package observe_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/admitd/admitd/observe"
)

// The last lines are kept for the post-mortem, in bounded room, while the log goes
// where it went.
func TestTail(t *testing.T) {
	var out bytes.Buffer
	tail := &observe.Tail{Out: &out}
	log, _, err := observe.NewLogger(tail, observe.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		log.Info("line", slog.Int("n", i))
	}
	log.Info("long", slog.String("x", strings.Repeat("y", 1<<20)))
	kept := tail.Lines()
	if len(kept) > 260<<10 || !bytes.Contains(kept, []byte(`"n":9999`)) || bytes.Contains(kept, []byte(`"n":17}`)) {
		t.Errorf("%d bytes are kept; want the last ones within 256 KiB", len(kept))
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 10_001 || out.Len() < 1<<20 {
		t.Errorf("%d lines went on; want all of them, whole", n)
	}
	if lines := bytes.Count(kept, []byte("\n")); lines != len(bytes.Split(bytes.TrimSpace(kept), []byte("\n"))) {
		t.Error("a line that was cut runs into the next one")
	}
}

// An archive is sent around. What looks like a secret is not in it.
func TestTailTellsNoSecrets(t *testing.T) {
	tail := &observe.Tail{}
	log, _, err := observe.NewLogger(tail, observe.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"Authorization: Bearer s3cret", "dial postgres://eve:s3cret@db:5432/x", "password=s3cret user=eve", `{"token": "s3cret"}`, "api-key=s3cret",
	} {
		log.Info("failed", slog.Any("error", fmt.Errorf("backend: %s", text)))
	}
	if kept := string(tail.Lines()); strings.Contains(kept, "s3cret") || strings.Count(kept, "[redacted]") < 5 || !strings.Contains(kept, "db:5432/x") {
		t.Errorf("the lines tell:\n%s", kept)
	}
}
