package daemon_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// A token that is renewed on disk, by a new target of its link as a volume of
// Kubernetes does, is in force within 5 s, and a file that holds none leaves the old
// one: the new one was refused until some reload.
func TestTokensFollowTheirFiles(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "token")
	swap := func(name, content string) {
		t.Helper()
		target := filepath.Join(dir, name)
		if err := os.WriteFile(target, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link+".next"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".next", link); err != nil {
			t.Fatal(err)
		}
	}
	swap("first", "one")
	cfg := configured.From(t, "{ admin: { listen: 127.0.0.1:0, tokenFile: "+link+" }, ingresses: [{ name: jobs }] }")
	synctest.Test(t, func(t *testing.T) {
		d, err := daemon.Standing(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var taken []string
		go d.FollowTokens(ctx, func(token string) {
			if token != "" { // of the decisions listener, which has none
				taken = append(taken, token)
			}
		})
		for _, step := range []struct{ name, content string }{{"second", "three"}, {"third", ""}, {"fourth", "five"}} {
			synctest.Wait()
			swap(step.name, step.content)
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !slices.Equal(taken, []string{"three", "five"}) {
			t.Errorf("tokens %q; want each that a file held", taken)
		}
	})
}

// What waits for a restart is told by readyz and a metric, until the file says again
// what is in force: a change of such a setting was said to be in force.
func TestSettingsThatWaitForARestart(t *testing.T) {
	const rest = ", ingresses: [{name: jobs}]}"
	r := run(t, "{admin: {listen: '127.0.0.1:0'}, log: {level: error}"+rest)
	told := func(metric string, details ...string) {
		t.Helper()
		if _, body := r.ask(http.MethodGet, "/metrics", ""); !strings.Contains(body, "\nadmitd_config_restart_pending "+metric+"\n") {
			t.Errorf("the metric is not %s", metric)
		}
		_, body := r.ask(http.MethodGet, "/readyz", "")
		if strings.Contains(body, "after a restart only") != (len(details) > 0) {
			t.Errorf("readyz: %s", body)
		}
		for _, detail := range details {
			if !strings.Contains(body, detail) {
				t.Errorf("readyz: %s; want that it names %s", body, detail)
			}
		}
	}
	told("0")
	r.reload("{admin: {listen: '127.0.0.1:0', reads: open}, log: {level: error, format: text}, tracing: {endpoint: 'http://127.0.0.1:1'}" + rest)
	told("2", "log.format", "tracing")
	r.reload("{admin: {listen: '127.0.0.1:0'}, log: {level: error}" + rest)
	told("0")
}
