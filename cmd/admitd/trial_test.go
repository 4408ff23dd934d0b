package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that was gone when the daemon was told to reload, and comes back as it
// was, is read by itself. The refusal once stayed for ever: the watcher had seen
// no change.
func TestRestoredFileEndsTheRefusal(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "10s", 0))
	p.becomes("admitd_config_last_reload_successful", 1)
	if err := os.Rename(p.path, p.path+".away"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.becomes("admitd_config_last_reload_successful", 0)
	if err := os.Rename(p.path+".away", p.path); err != nil {
		t.Fatal(err)
	}
	p.becomes("admitd_config_last_reload_successful", 1)
}

// A reload reads the token anew, so that it can be changed without a restart.
func TestReloadReadsTheToken(t *testing.T) {
	b := startBackend(t)
	file := filepath.Join(t.TempDir(), "token")
	put := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	p := startProcess(t, fmt.Sprintf("admin: { tokenFile: %q }\n", file)+fmt.Sprintf(orders, b.URL, "1s", 0))
	reload := func(token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.admin+"/v1/reload", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	put("second")
	if status := reload("first"); status != http.StatusOK {
		t.Fatalf("reload with the old token = %d; want 200", status)
	}
	if status := reload("first"); status != http.StatusUnauthorized {
		t.Errorf("with the old token afterwards = %d; want 401", status)
	}
	if status := reload("second"); status != http.StatusOK {
		t.Errorf("with the new token = %d; want 200", status)
	}
	put("")
	if status := reload("second"); status != http.StatusBadRequest {
		t.Errorf("with an empty token file = %d; want 400: it must not open the port", status)
	}
}

// A backend that is down is told by a metric and by a line of the log, not by
// one line per request.
func TestBackendThatIsDownIsTold(t *testing.T) {
	p := startProcess(t, fmt.Sprintf(orders, "http://127.0.0.1:1", "1s", 0))
	url := p.url("orders")
	for range 5 {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadGateway {
			t.Errorf("status %d; want 502", res.StatusCode)
		}
	}
	p.becomes(`admitd_backend_failures_total{backend="http://127.0.0.1:1",cause="unreachable",ingress="orders"}`, 5)
	p.becomes(`admitd_backend_up{backend="http://127.0.0.1:1",ingress="orders"}`, 0)
	p.said("backend fails")
	if n := p.count("backend fails"); n != 1 {
		t.Errorf("%d lines of the log; want 1", n)
	}
}
