package postgresgate_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

var update = flag.Bool("update", false, "write the golden files")

// The exact bytes of every refusal.
func TestRefusalBytes(t *testing.T) {
	for _, reason := range labels.Reasons() {
		d := labels.New(reason, "orders", "checkout")
		d.Limit, d.RetryAfterMS = "partition", 137
		if !reason.Retryable() {
			d.RetryAfterMS = 0
		}
		got := postgresgate.AppendRefusal(d, nil)
		file := filepath.Join("testdata", "refusal-"+string(reason)+".golden")
		if *update {
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", reason, got, err, want)
		}
	}
	states := map[labels.Reason]string{labels.Draining: "57P01"}
	if got := postgresgate.SQLState(postgresgate.AppendRefusal(labels.New(labels.Draining, "a", "b"), states)); got != "57P01" {
		t.Errorf("replaced SQLSTATE = %s; want 57P01", got)
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		code, message string
		want          limiter.Outcome
	}{
		{"23505", "duplicate key", limiter.Ignored},
		{"40001", "could not serialize", limiter.Ignored},
		{"53200", "out of memory", limiter.Dropped},
		{"53100", "disk full", limiter.Dropped},
		{"57014", "canceling statement due to statement timeout", limiter.Dropped},
		{"57014", "canceling statement due to user request", limiter.Ignored},
		{"57P01", "terminating connection", limiter.Ignored},
		{"", "", limiter.Ignored},
	} {
		if got := postgresgate.Judge(failure(tc.code, tc.message)); got != tc.want {
			t.Errorf("judge(%s %s) = %v; want %v", tc.code, tc.message, got, tc.want)
		}
	}
	if got := postgresgate.Judge([]byte("E\x00\x00\x00\x20C5320")); got != limiter.Ignored {
		t.Errorf("judge of a cut message = %v; want ignored", got)
	}
}

func TestStartup(t *testing.T) {
	for _, tc := range []struct {
		parameters                  []string
		user, database, application string
		timeout                     time.Duration
		replication                 bool
	}{
		{nil, "app", "app", "", 0, false},
		{[]string{"database", "shop", "application_name", "web"}, "app", "shop", "web", 0, false},
		{[]string{"replication", "database"}, "app", "app", "", 0, true},
		{[]string{"replication", "off"}, "app", "app", "", 0, false},
		{[]string{"statement_timeout", "250"}, "app", "app", "", 250 * time.Millisecond, false},
		{[]string{"options", "-c statement_timeout=5s --application-name=x -c"}, "app", "app", "x", 5 * time.Second, false},
		{[]string{"options", "-cstatement_timeout=1min"}, "app", "app", "", time.Minute, false},
		{[]string{"options", "-c statement_timeout=never"}, "app", "app", "", 0, false},
		{[]string{"database"}, "app", "app", "", 0, false},
		// The server cuts them: each other end of one name made a partition of its own.
		{[]string{"user", strings.Repeat("u", 64), "database", strings.Repeat("d", 70)}, strings.Repeat("u", 63), strings.Repeat("d", 63), "", 0, false},
	} {
		user, database, application, timeout, replication := postgresgate.Startup(hello(tc.parameters...))
		if user != tc.user || database != tc.database || application != tc.application || timeout != tc.timeout || replication != tc.replication {
			t.Errorf("parseStartup(%q) = %s %s %s %v %v; want %+v", tc.parameters, user, database, application, timeout, replication, tc)
		}
	}
}
