package dashboards_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/labels"
)

// scene is the daemon under load, built from source, twice: one with every
// protocol, and one on which everything goes wrong that can go wrong without
// waiting for it.
type scene struct {
	main, broken string // addresses of the admin ports
}

const mainConfig = `
admin: { listen: %[1]s }
log: { level: error }
stateFile: %[15]s
tuner:
  signals:
    - { name: refused, source: gate, ingress: orders, metric: refused }
    - { name: nobody, source: http, url: "http://127.0.0.1:1", path: n, every: 1s }
  policies: [{ name: guard, signal: refused, above: 1e6, below: 1, adjust: orders.requests.rate, min: 10, max: 700, step: 0.1 }]
fleet: { redis: { addresses: ["127.0.0.1:1"] } }
shadow: [{ name: narrow, ingress: orders, requests: { rate: 5 } }]
ingresses:
  - name: orders
    listen: %[2]s
    backend: %[3]s
    backendTimeout: 2s
    connections: { rate: 1000, shared: true }
    requests: { rate: 600, exempt: { operations: [GET /healthz] } }
    cost: { header: X-Cost }
    partitions:
      by: header:X-Tenant
      max: 6
      total: 60
      default: { limit: { algorithm: gradient2, maxLimit: 20, %[6]s } }
      named:
        - { name: checkout, rate: 300, limit: { algorithm: aimd, requestTimeout: 20ms, initialLimit: 10, maxLimit: 15, %[6]s } }
        - { name: search, limit: { algorithm: vegas, initialLimit: 10, maxLimit: 15, %[6]s }, queue: { depth: 4, maxWait: 20ms } }
        - { name: export, limit: { algorithm: gradient, initialLimit: 10, maxLimit: 15, %[6]s }, queue: { depth: 4, maxWait: 300ms } }
        - { name: batch, limit: { algorithm: fixed, limit: 2 }, queue: { depth: 0 } }
  - name: watched
    listen: %[4]s
    backend: %[3]s
    mode: shadow
    requests: { rate: 2 }
    classes: { by: header:X-Class }
  - name: db
    protocol: mongodb
    listen: %[5]s
    backend: %[7]s
  - name: events
    protocol: pulsar
    listen: %[8]s
    backend: %[9]s
    pulsar:
      topicPublishRate: { messages: 5 }
  - name: shop
    protocol: postgres
    listen: %[10]s
    backend: %[11]s
    requests: { rate: 20 }
  - name: secured
    listen: %[12]s
    backend: %[3]s
    tls: { certFile: %[13]s, keyFile: %[14]s }
`

const brokenConfig = `
admin: { listen: %[1]s }
log: { level: error }
ingresses:
  - name: stopped
    listen: %[2]s
    backend: %[3]s
    connections: { maxOpen: 2 }
    partitions: { default: { limit: { algorithm: vegas } } }
`

// mostBytes bounds the stripped program. The linker drops the methods that nobody
// calls, a third of it, only while nothing that is reachable finds methods by name.
const mostBytes = 30_000_000

// build builds the daemon from source, as the packages have it.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "admitd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", binary, "../cmd/admitd")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > mostBytes {
		t.Errorf("admitd is %d bytes, stripped; want at most %d. Above 38 MB reflect.Value.MethodByName has become reachable: look for html/template or "+
			"text/template in our own packages, for SetVersionTemplate and its like of cobra, and whether the tag grpcnotrace is set; "+
			"`go build -ldflags=-dumpdep ./cmd/admitd 2>&1 | grep -F MethodByName` names who reaches it", info.Size(), mostBytes)
	}
	return binary
}

// start builds the daemon and puts it under load until the test ends.
func start(t *testing.T) *scene {
	t.Helper()
	binary := build(t)
	backend := httptest.NewServer(slowBackend())
	t.Cleanup(backend.Close)
	mongo, pulsar, postgres := wireBackends(t)
	a := addresses(t, 9)
	cert, key := keypair.Files(t, "localhost")
	const window = "window: { min: 100ms, max: 100ms }"
	run(t, binary, fmt.Sprintf(mainConfig, a[0], a[1], backend.URL, a[2], a[3], window, mongo, a[4], pulsar, a[7], postgres, a[8], cert, key, filepath.Join(t.TempDir(), "state")))
	broken := run(t, binary, fmt.Sprintf(brokenConfig, a[5], a[6], backend.URL), "--clock-fault", "backwards=50ms@1s")

	loadHTTP(t, "http://"+a[1], "http://"+a[2])
	loadMongo(t, a[3])
	loadPulsar(t, a[4])
	loadPostgres(t, a[7])
	loadHTTP(t, "http://"+a[6])
	// All that the broken one may accept are taken, and its configuration is
	// spoilt while it runs.
	for range 2 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", a[6])
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	if err := os.WriteFile(broken, []byte("ingresses: [{ name: stopped, lisen: x }]\n"), 0o600); err != nil {
		t.Fatalf("write: %v", err)
	}
	background(t, time.Second, func(ctx context.Context) { reload(ctx, a[0]) })
	return &scene{main: a[0], broken: a[5]}
}

// reload asks a daemon to read its configuration again.
func reload(ctx context.Context, admin string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin+"/v1/reload", http.NoBody)
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// addresses returns free loopback addresses.
func addresses(t *testing.T, n int) (out []string) {
	t.Helper()
	for range n {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("listen: %v", err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}

// run starts the daemon on a configuration and returns the file's name. The
// daemon is drained when the test ends.
func run(t *testing.T, binary, text string, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admitd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write: %v", err)
	}
	start := exec.CommandContext(context.WithoutCancel(t.Context()), binary, append([]string{"serve", "--config", file}, flags...)...)
	spawn(t, start)
	admin := strings.Fields(text)[3] // admin: { listen: ADDRESS
	waitFor(t, "admitd", func() bool { return get(t, "http://"+admin+"/readyz", nil) == nil })
	return file
}

// spawn starts a program and ends it with the test.
func spawn(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		stop := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		stop.Stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), out.String())
		}
	})
}

// waitFor waits until something holds, at most 30 s.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s is not there after 30s", what)
		}
	}
}

// get reads a page; into may be nil.
func get(t *testing.T, url string, into *string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if into != nil {
		*into = string(body)
	}
	if err == nil && res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return err
}

// slowBackend serves four requests at a time, 10 ms each; /fail fails.
func slowBackend() http.Handler {
	workers := make(chan struct{}, 4)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		work := time.NewTimer(10 * time.Millisecond)
		defer work.Stop()
		<-work.C
		if r.URL.Path == "/fail" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// wireBackends starts the models of a MongoDB server, of a Pulsar broker and of a
// PostgreSQL server.
func wireBackends(t *testing.T) (mongo, pulsar, postgres string) {
	t.Helper()
	serve := func(serve func(context.Context, net.Listener) error) string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("listen: %v", err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var done sync.WaitGroup
		done.Go(func() { _ = serve(ctx, l) })
		t.Cleanup(func() { cancel(); done.Wait() })
		return l.Addr().String()
	}
	return serve(modelmongo.New(4, 5*time.Millisecond).Serve), serve(modelpulsar.New(modelpulsar.Options{}).Serve),
		serve(modelpostgres.New(4, 5*time.Millisecond).Serve)
}

// background runs f again and again until the test ends.
func background(t *testing.T, every time.Duration, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f(ctx)
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// loadHTTP sends what makes every reason and every outcome occur.
func loadHTTP(t *testing.T, urls ...string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 3 * time.Second}
	t.Cleanup(c.CloseIdleConnections)
	send := func(ctx context.Context, url, tenant string, header ...string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return
		}
		req.Header.Set("X-Tenant", tenant)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		if res, err := c.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}
	for _, url := range urls {
		for _, tenant := range []string{"checkout", "search", "export", "batch", "alice"} {
			for _, attempt := range []string{"1", "1", "1", "2"} {
				background(t, 20*time.Millisecond, func(ctx context.Context) { send(ctx, url, tenant, labels.HeaderAttempt, attempt) })
			}
		}
		n := 0
		background(t, 50*time.Millisecond, func(ctx context.Context) {
			n++
			send(ctx, url+"/fail", "checkout")
			send(ctx, url+"/healthz", "checkout")
			send(ctx, url, "checkout", "X-Tenant", "search") // of two tenants: not valid
			send(ctx, url, "checkout", "X-Cost", "100000")
			send(ctx, url, fmt.Sprintf("tenant-%d", n%20))
			brief, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
			defer cancel()
			send(brief, url, "export")
		})
	}
}

func loadMongo(t *testing.T, addr string) {
	t.Helper()
	for i := range 2 {
		background(t, 200*time.Millisecond, func(ctx context.Context) {
			cl, err := modelmongo.Dial(ctx, addr, i == 0)
			if err != nil {
				return
			}
			defer cl.Close()
			for range 5 {
				_ = cl.Find(ctx, "shop", "orders")
			}
		})
	}
}

func loadPostgres(t *testing.T, addr string) {
	t.Helper()
	background(t, 100*time.Millisecond, func(ctx context.Context) {
		cl, err := modelpostgres.Dial(ctx, addr)
		if err != nil {
			return
		}
		defer cl.Close()
		for range 5 {
			_ = cl.Query("select 1")
		}
	})
}

func loadPulsar(t *testing.T, addr string) {
	t.Helper()
	c, err := pulsarproducer.Connect(t.Context(), addr, pulsarproducer.Options{})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(c.Close)
	p, err := c.NewProducer(t.Context(), "persistent://acme/shop/orders", pulsarproducer.ProducerOptions{})
	if err != nil {
		t.Fatalf("producer: %v", err)
	}
	background(t, 20*time.Millisecond, func(ctx context.Context) {
		p.SendAsync(ctx, []byte("order"), func(error) {})
	})
}
