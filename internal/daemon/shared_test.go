package daemon_test

import (
	"testing"

	"github.com/admitd/admitd/internal/daemon"
)

// The log is text where a person reads it, and JSON for programs, unless the
// configuration says otherwise.
func TestLogFormat(t *testing.T) {
	for _, tc := range []struct {
		configured string
		terminal   bool
		want       string
	}{
		{"auto", true, "text"},
		{"auto", false, "json"},
		{"json", true, "json"},
		{"text", false, "text"},
	} {
		if got := daemon.LogFormat(tc.configured, tc.terminal); got != tc.want {
			t.Errorf("LogFormat(%q, %v) = %q; want %q", tc.configured, tc.terminal, got, tc.want)
		}
	}
}
