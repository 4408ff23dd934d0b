package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const token = "a-token-for-the-test"

// binary is admitd, built once for all tests.
var binary struct {
	once sync.Once
	path string
	err  error
}

// TestMain removes what the tests built.
func TestMain(m *testing.M) {
	m.Run()
	if binary.path != "" && os.Getenv("ADMITD_BIN") == "" {
		_ = os.RemoveAll(filepath.Dir(binary.path))
	}
}

// build returns the path of admitd: $ADMITD_BIN, or built from the tree.
func build(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.path = os.Getenv("ADMITD_BIN"); binary.path != "" {
			return
		}
		dir, err := os.MkdirTemp("", "admitd-e2e") //nolint:usetesting // it outlives the first test, TestMain removes it
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "admitd")
		cmd := exec.Command("go", "build", "-o", binary.path, "./cmd/admitd")
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

// daemon is a running admitd before a backend of known capacity.
type daemon struct {
	admin, gate string // addresses
	config      string // file
	cmd         *exec.Cmd
	ended       <-chan struct{} // closed when the process has ended
}

// start runs admitd with a token, and two ingresses before one backend.
func start(t *testing.T) *daemon {
	t.Helper()
	return startWith(t, token)
}

// startWith is start with that token, "" = none.
func startWith(t *testing.T, secret string) *daemon {
	t.Helper()
	backend := newBackend(t)
	d := &daemon{admin: free(t), gate: free(t)}
	dir := t.TempDir()
	tokenFile, config := filepath.Join(dir, "token"), filepath.Join(dir, "admitd.yaml")
	if secret == "" {
		tokenFile = ""
	} else {
		write(t, tokenFile, secret)
	}
	write(t, config, fmt.Sprintf(`admin: { listen: %q, tokenFile: %q }
log: { level: warn, format: text }
ingresses:
  - name: orders
    protocol: http
    listen: %q
    backend: %q
    requests: { rate: 2000, burstSeconds: 1 }
    partitions:
      by: "header:X-Tenant"
      max: 2000
      default: { limit: { algorithm: gradient2, initialLimit: 8, minLimit: 2 }, queue: { depth: 0 } }
      named:
        - { name: checkout, match: checkout, limit: { algorithm: vegas, initialLimit: 8 } }
        - { name: batch, match: batch, rate: 150, burstSeconds: 2, limit: { algorithm: fixed, limit: 4 }, queue: { depth: 0 } }
  - name: search
    protocol: http
    listen: 127.0.0.1:0
    backend: %q
    mode: shadow
`, d.admin, tokenFile, d.gate, backend, backend))
	d.config = config
	d.run(t)
	return d
}

// run starts the process, which ends with the test at the latest.
func (d *daemon) run(t *testing.T) {
	t.Helper()
	cmd := exec.Command(build(t), "serve", "--config", d.config)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	d.cmd, d.ended = cmd, ended
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("admitd did not drain within 20s")
		}
	})
	eventually(t, "admitd is ready", func() bool {
		res, err := http.Get("http://" + d.admin + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// newBackend serves four requests at a time, 10 ms each, and /slow in 3 s.
func newBackend(t *testing.T) string {
	t.Helper()
	workers := make(chan struct{}, 4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case workers <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-workers }()
		service := 10 * time.Millisecond
		if r.URL.Path == "/slow" {
			service = 3 * time.Second
		}
		<-time.After(service)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// load sends requests of a tenant, rate per second, until the test ends.
func (d *daemon) load(t *testing.T, tenant string, rate float64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}, Timeout: 2 * time.Second}
	slots := make(chan struct{}, 64)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			select {
			case slots <- struct{}{}:
				wg.Go(func() {
					defer func() { <-slots }()
					d.send(ctx, client, tenant)
				})
			default: // the machine is too slow: fewer requests are sent
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); client.CloseIdleConnections() })
}

// send sends one request.
func (d *daemon) send(ctx context.Context, client *http.Client, tenant string) {
	d.get(ctx, client, tenant, "/orders/1")
}

// get asks for a path as a tenant.
func (d *daemon) get(ctx context.Context, client *http.Client, tenant, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.gate+path, nil)
	if err != nil {
		return
	}
	req.Header.Set("X-Tenant", tenant)
	if res, err := client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// ingress reads the effective configuration of an ingress.
func (d *daemon) ingress(t *testing.T, name string) map[string]any {
	t.Helper()
	res, err := http.Get("http://" + d.admin + "/v1/config")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc struct {
		Ingresses []map[string]any `json:"ingresses"`
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, in := range doc.Ingresses {
		if in["name"] == name {
			return in
		}
	}
	t.Fatalf("no ingress %s", name)
	return nil
}

// admitted reads how many requests the gate has admitted.
func (d *daemon) admitted(t *testing.T) int {
	t.Helper()
	res, err := http.Get("http://" + d.admin + "/v1/status?partitions=0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc struct {
		Ingresses []struct {
			Counts struct {
				Admitted int `json:"admitted"`
			} `json:"counts"`
		} `json:"ingresses"`
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc.Ingresses[0].Counts.Admitted
}

// limit reads the limit that the gate enforces for a partition.
func (d *daemon) limit(t *testing.T, partition string) int {
	t.Helper()
	res, err := http.Get("http://" + d.admin + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc struct {
		Ingresses []struct {
			Partitions []struct {
				Name  string `json:"name"`
				Limit int    `json:"limit"`
			} `json:"partitions"`
		} `json:"ingresses"`
	}
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range doc.Ingresses[0].Partitions {
		if p.Name == partition {
			return p.Limit
		}
	}
	t.Fatalf("no partition %s", partition)
	return 0
}

// eventually waits until done, at most 30 s.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

// free returns a loopback address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newSlowBackend answers everything after a time, however many ask.
func newSlowBackend(t *testing.T, service time.Duration) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(service):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s.URL
}
