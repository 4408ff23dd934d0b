package daemon_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/labels"
)

// The configuration cannot ask the table of reasons, and must know all of them.
func TestReasonsOfTheConfiguration(t *testing.T) {
	for _, reason := range labels.Reasons() {
		if !slices.Contains(config.Reasons(), string(reason)) {
			t.Errorf("config.Reasons() lacks %s", reason)
		}
	}
}

// No PostgreSQL client waits by itself: the gate does, unless it is told not to.
func TestPostgresWaits(t *testing.T) {
	for text, want := range map[string]struct {
		depth int
		wait  time.Duration
	}{
		``:                       {1000, 250 * time.Millisecond},
		`, "objective": "100ms"`: {1000, 75 * time.Millisecond},
		`, "partitions": {"default": {"queue": {"depth": 7, "maxWait": "2s"}}}`: {7, 2 * time.Second},
		`, "partitions": {"default": {"queue": {"depth": 0}}}`:                  {0, 0},
	} {
		cfg := configured.From(t, `{"ingresses": [{"name": "a", "protocol": "postgres", "listen": "127.0.0.1:1", "backend": "127.0.0.1:2"`+text+`}]}`)
		p, err := daemon.Policy(&cfg.Ingresses[0], nil)
		if err != nil || p.Default.QueueDepth != want.depth || p.Default.MaxWait != want.wait || p.Default.QueueAuto {
			t.Errorf("Policy of %q: depth %d, wait %v, auto %v, %v; want %+v", text, p.Default.QueueDepth, p.Default.MaxWait, p.Default.QueueAuto, err, want)
		}
	}
}

// Nor can it ask the gate which operations it tells apart.
func TestOperationsOfTheConfiguration(t *testing.T) {
	for _, op := range append(sqltext.Operations(), "vacuum") {
		text := `ingresses: [{ name: a, protocol: postgres, listen: "127.0.0.1:1", backend: "127.0.0.1:2", cost: { byOperation: { ` + op + `: 2 } } }]`
		_, err := config.Parse("test", []byte(text), nil)
		if op != "vacuum" {
			if err != nil {
				t.Errorf("%s: %v", op, err)
			}
			continue
		}
		if err == nil {
			t.Fatal("vacuum is an operation")
		}
		_, offered, _ := strings.Cut(err.Error(), "must be ")
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(strings.ReplaceAll(offered, " or ", " "), -1) {
			if word != op && !slices.Contains(sqltext.Operations(), word) {
				t.Errorf("%q offers %s, which the gate does not know", err, word)
			}
		}
	}
}
