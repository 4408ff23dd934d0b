package daemon_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/config/watch"
	"github.com/admitd/admitd/internal/daemon"
)

// running is a daemon that serves a configuration from a file.
type running struct {
	*daemon.Daemon

	t    *testing.T
	file string
	stop func() // drains it, and waits until it has ended
}

// run starts a daemon on content and stops it when the test ends.
func run(t *testing.T, content string) *running {
	t.Helper()
	r := &running{t: t, file: filepath.Join(t.TempDir(), "admitd.yaml")}
	r.write(content)
	cfg, err := config.Load(r.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Daemon, err = daemon.New(cfg, daemon.Options{Path: r.file, Loaded: watch.HashOf([]byte(content))}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(r.stop)
	select {
	case <-r.Up():
	case err := <-ended:
		t.Fatal(err)
	}
	return r
}

// write replaces the file.
func (r *running) write(content string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload puts content in force.
func (r *running) reload(content string) {
	r.t.Helper()
	r.write(content)
	if err := r.Reload(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// ask asks the admin port, over the loopback.
func (r *running) ask(method, path, body string) (status int, answer string) {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(r.AdminAddress().String())
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://127.0.0.1:"+port+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// A reload from a public address with a token to a loopback address once dropped
// the token while the public socket stayed: anybody could then change limits.
// /v1/config tells what is in force.
func TestTokenOfAnOpenPortIsKept(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = ", log: {level: error}, ingresses: [{name: jobs}]}"
	r := run(t, "{admin: {listen: '0.0.0.0:0', tokenFile: "+token+"}"+rest)
	r.reload("{admin: {listen: '127.0.0.1:0'}" + rest)
	if status, body := r.ask(http.MethodPatch, "/v1/ingresses/jobs", `{"mode":"off"}`); status != http.StatusUnauthorized {
		t.Errorf("patch without the token = %d %s; want 401", status, body)
	}
	if _, body := r.ask(http.MethodGet, "/v1/config", ""); !strings.Contains(body, `"0.0.0.0:0"`) || !strings.Contains(body, token) {
		t.Errorf("/v1/config does not show the address and the token's file that are in force: %s", body)
	}
}

// Where only this machine can reach the port, a reload may drop the token.
func TestTokenOfALoopbackPortCanBeDropped(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = ", log: {level: error}, ingresses: [{name: jobs}]}"
	r := run(t, "{admin: {listen: '127.0.0.1:0', tokenFile: "+token+"}"+rest)
	r.reload("{admin: {listen: '127.0.0.1:0'}" + rest)
	if status, body := r.ask(http.MethodPatch, "/v1/ingresses/jobs", `{"mode":"off"}`); status != http.StatusOK {
		t.Errorf("patch without a token = %d %s; want 200", status, body)
	}
}

// A profile says of which ingress the goroutines are.
func TestProfilesNameTheIngress(t *testing.T) {
	run(t, "{admin: {listen: '127.0.0.1:0'}, log: {level: error}, ingresses: [{name: profiled, listen: '127.0.0.1:0', backend: 'http://127.0.0.1:1'}]}")
	const want = `{"ingress":"profiled"}`
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) { // until its goroutines have begun
		var profile strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(profile.String(), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no goroutine is labelled %s", want)
		}
	}
}
