package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/status"
)

// remembering is a gate that keeps what it learns in a file.
const remembering = `
stateFile: %s
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: %s
`

// explained returns why the limit is what it is, once the latency without load
// is known.
func explained(t *testing.T, p *process) (e status.Explanation) {
	t.Helper()
	waitFor(t, "the baseline to be known", func() bool {
		code, body := p.api(http.MethodGet, "/v1/explain/orders", "")
		e = status.Explanation{}
		return code == http.StatusOK && json.Unmarshal([]byte(body), &e) == nil && e.Baseline != nil
	})
	return e
}

// A restart under overload took the latency of the queue for that of the idle
// backend. With a state file it keeps the one that it learned when idle, and says
// where it comes from; a file that is damaged is not believed.
func TestARestartUnderOverloadRemembers(t *testing.T) {
	if testing.Short() {
		t.Skip("learns for seconds")
	}
	const work = 20 * time.Millisecond
	workers := make(chan struct{}, 2)
	b := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		workers <- struct{}{}
		time.Sleep(work)
		<-workers
	}))
	t.Cleanup(b.Close)
	file := filepath.Join(t.TempDir(), "admitd.state")

	p := startProcess(t, fmt.Sprintf(remembering, file, b.URL))
	p.said("no state file yet, limits begin anew")
	for range 150 {
		mustGet(t, p.url("orders"))
	}
	idle := explained(t, p)
	if idle.Baseline.Kept || idle.Baseline.MS < 20 {
		t.Errorf("learned idle: %+v", idle.Baseline)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	p = startProcess(t, fmt.Sprintf(remembering, file, b.URL))
	p.said("baselines are known from before")
	over := make(chan struct{})
	var callers sync.WaitGroup
	url := p.url("orders")
	for range 40 {
		callers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if a, err := get(url); err != nil || a.status != http.StatusOK {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	loaded := explained(t, p)
	if !loaded.Baseline.Kept || !strings.Contains(loaded.Text, "kept in the state file") {
		t.Errorf("under overload the baseline is %+v, and the explanation %q; want the one of before", loaded.Baseline, loaded.Text)
	}
	time.Sleep(2 * time.Second)
	if later := explained(t, p); later.Baseline.MS > 1.6*idle.Baseline.MS {
		t.Errorf("after 2 s of overload the baseline is %.1f ms; learned idle were %.1f", later.Baseline.MS, idle.Baseline.MS)
	}
	close(over)
	callers.Wait()
	p.signal(syscall.SIGTERM)
	p.exit()

	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept[len(kept)-9] ^= 4
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	p = startProcess(t, fmt.Sprintf(remembering, file, b.URL))
	p.said("the state file is ignored, limits begin anew")
	p.signal(syscall.SIGTERM)
	p.exit()
}

// Whoever names the wrong file finds it as it was, and a place that cannot be
// written is told of at the start, not after the restart that it was for.
func TestStateFileElsewhere(t *testing.T) {
	b := startBackend(t)
	file := filepath.Join(t.TempDir(), "precious.cnf")
	const precious = "[mysqld]\ndatadir=/var/lib/mysql\n"
	if err := os.WriteFile(file, []byte(precious), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, fmt.Sprintf(remembering, file, b.URL))
	p.said("stateFile names a file of something else; it is left alone, and nothing is kept")
	p.signal(syscall.SIGTERM)
	p.exit()
	if kept, err := os.ReadFile(file); err != nil || string(kept) != precious {
		t.Errorf("the file holds %q now", kept)
	}
	p = startProcess(t, fmt.Sprintf(remembering, filepath.Join(file, "state"), b.URL))
	p.said("the state file cannot be written, a restart will forget what limits learned")
}
