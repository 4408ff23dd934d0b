package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// orders is one ingress with a rate and a drain timeout.
const orders = `
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: %s
    drainTimeout: %s
    requests: { rate: %v }
`

// load keeps asking until it is stopped, each caller on a connection that it
// keeps.
type load struct {
	served atomic.Int64
	stop   func()

	mu    sync.Mutex // guards wrong
	wrong []string   // answers that are something else
}

// startLoad starts callers.
func startLoad(t *testing.T, url string, callers int) *load {
	t.Helper()
	l, over := &load{}, make(chan struct{})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			c := &http.Client{Transport: &http.Transport{}, Timeout: patience}
			defer c.CloseIdleConnections()
			for {
				select {
				case <-over:
					return
				default:
					l.once(c, url)
				}
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(over); wg.Wait() })
	t.Cleanup(l.stop)
	return l
}

// once sends one request and files the answer.
func (l *load) once(c *http.Client, url string) {
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		panic(err) // the test's own URL
	}
	a, err := send(c, r)
	switch {
	case err == nil && a.status == http.StatusOK && string(a.body) == "served":
		l.served.Add(1)
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wrong = append(l.wrong, fmt.Sprintf("%+v %v", a, err))
	}
}

// flows waits until more was served.
func (l *load) flows(t *testing.T) {
	t.Helper()
	before := l.served.Load()
	waitFor(t, "more requests to be served", func() bool { return l.served.Load() > before+20 })
}

// check fails the test when anything was lost.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.stop()
	if len(l.wrong) > 0 {
		t.Errorf("%d requests were lost, the first: %s", len(l.wrong), l.wrong[0])
	}
}

// Settings change under load, in each of the three ways, and no request is
// lost or refused.
func TestReloadUnderLoad(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "10s", 0))
	l := startLoad(t, p.url("orders"), 8)
	for i := range 4 {
		rate := 100_000 + i
		want := fmt.Sprintf(orders, b.URL, "10s", rate)
		switch i % 3 {
		case 0:
			p.put(want)
		case 1:
			p.write(want)
			p.signal(syscall.SIGHUP)
		case 2:
			p.write(want)
			if status, body := p.api(http.MethodPost, "/v1/reload", ""); status != http.StatusOK {
				t.Errorf("reload = %d: %s; want 200", status, body)
			}
		}
		waitFor(t, "the rate to be in force", func() bool {
			_, text := p.api(http.MethodGet, "/v1/config", "")
			return strings.Contains(text, fmt.Sprintf(`"rate":%d,`, rate)) || strings.Contains(text, fmt.Sprintf(`"rate": %d,`, rate))
		})
		l.flows(t)
	}
	l.check(t)
}

// A change of what a server is told by is taken by the one that runs: nobody is turned
// away, and a request in flight is answered. Those who came over an old connection were
// told to come back once.
func TestChangesOfAnIngressUnderLoad(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "10s", 0))
	url := p.url("orders")
	l := startLoad(t, url, 8)
	inFlight := b.hold(t, url)
	for _, timeout := range []string{"11s", "12s", "13s"} {
		p.put(fmt.Sprintf(orders, b.URL, timeout, 0))
		l.flows(t)
	}
	b.release()
	inFlight.served(t)
	l.check(t)
	if n := p.count("ingress listens"); n != 1 {
		t.Errorf("%d servers listened; want one, which takes every change", n)
	}
}

// What only the HTTP gate reads changes in place: the limiter that learned
// goes on. Such a change began anew once.
func TestChangeOfBackendKeepsTheLimiter(t *testing.T) {
	first, second := startBackend(t), startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, first.URL, "10s", 0))
	inFlight := first.hold(t, p.url("orders"))
	p.put(fmt.Sprintf(orders, second.URL, "10s", 0))
	if n, ok := p.metric(`admitd_requests_in_flight{ingress="orders",partition="default"}`); !ok || n != 1 {
		t.Errorf("in flight after the change = %v, %v; want the permit kept", n, ok)
	}
	serves(t, p.url("orders"))
	if second.completed.Load() != 1 {
		t.Error("the new backend got nothing")
	}
	first.release()
	inFlight.served(t)
	p.becomes(`admitd_requests_in_flight{ingress="orders",partition="default"}`, 0)
}

// An ingress that needs a new server keeps its gate: what its limiters learned,
// the permits in flight on the old server, and one set of metrics. They began
// anew once.
func TestRestartOfAnIngressKeepsTheLimiter(t *testing.T) {
	b := startBackend(t)
	limited := "    partitions: { default: { limit: { algorithm: fixed, limit: 2 }, queue: { depth: 0 } } }\n"
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "10s", 0)+limited)
	url := p.url("orders")
	inFlight := []held{b.hold(t, url), b.hold(t, url)}
	for _, timeout := range []string{"11s", "12s"} {
		p.put(fmt.Sprintf(orders, b.URL, timeout, 0) + limited)
		if n, ok := p.metric(`admitd_requests_in_flight{ingress="orders",partition="default"}`); !ok || n != 2 {
			t.Errorf("in flight after the change = %v, %v; want the permits kept", n, ok)
		}
		if a := mustGet(t, url); a.header.Get("X-Admitd-Reason") != "concurrency_limit" {
			t.Errorf("the new server answered %d; want the limit to hold over both", a.status)
		}
	}
	b.release()
	for _, h := range inFlight {
		h.served(t)
	}
	p.becomes(`admitd_requests_in_flight{ingress="orders",partition="default"}`, 0)
	serves(t, url)
	if n, ok := p.metric(`admitd_requests_admitted_total{ingress="orders",partition="default"}`); !ok || n != 3 {
		t.Errorf("admitted = %v, %v; want 3: counters go on", n, ok)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}

// A configuration that does not hold is refused in every way it can arrive, is
// shown in every place where an operator looks, and the running one stays.
func TestBrokenConfigurationIsRefused(t *testing.T) {
	b := startBackend(t)
	good := fmt.Sprintf(orders, b.URL, "10s", 0)
	p := startProcess(t, good)
	p.becomes("admitd_config_last_reload_successful", 1)
	p.write(strings.Replace(good, "rate: 0", "rate: lots", 1) + "    colour: red\n")
	p.becomes("admitd_config_last_reload_successful", 0)
	status, ready := p.api(http.MethodGet, "/readyz", "")
	if status != http.StatusOK || !strings.Contains(ready, "requests.rate") || !strings.Contains(ready, "colour") {
		t.Errorf("readyz = %d %s; want 200 with every problem", status, ready)
	}
	p.said("configuration refused, the running one stays")
	status, body := p.api(http.MethodPost, "/v1/reload", "")
	if status != http.StatusBadRequest || !strings.Contains(body, "requests.rate") || !strings.Contains(body, "colour") {
		t.Errorf("reload = %d %s; want 400 with every problem", status, body)
	}
	serves(t, p.url("orders"))

	// A change at run time says nothing about the file. It wiped its problems
	// away once.
	if status, body := p.api(http.MethodPatch, "/v1/ingresses/orders", `{"requests": {"rate": 1000}}`); status != http.StatusOK {
		t.Errorf("patch = %d %s; want 200", status, body)
	}
	if _, ready := p.api(http.MethodGet, "/readyz", ""); !strings.Contains(ready, "colour") {
		t.Errorf("readyz after a patch = %s; want the problems of the file", ready)
	}
	p.put(good)
	p.becomes("admitd_config_last_reload_successful", 1)
	if _, ready := p.api(http.MethodGet, "/readyz", ""); strings.Contains(ready, "colour") {
		t.Errorf("readyz after a good file = %s; want no problems", ready)
	}
}

// Files that a configuration names are read before anything changes.
func TestReloadWithoutCertificateChangesNothing(t *testing.T) {
	b := startBackend(t)
	good := fmt.Sprintf(orders, b.URL, "10s", 0)
	p := startProcess(t, good)
	p.write(strings.Replace(good, "rate: 0", "rate: 0.001", 1) + "    backendTLS: { enabled: true, caFile: nowhere.pem }\n")
	p.becomes("admitd_config_last_reload_successful", 0)
	for range 3 {
		serves(t, p.url("orders")) // the rate would refuse
	}
}

// Rates, limits and the mode change at run time, validated as the file is, and
// until the next reload.
func TestPatch(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(orders, b.URL, "10s", 0))
	patch := func(body string) (int, string) {
		t.Helper()
		return p.api(http.MethodPatch, "/v1/ingresses/orders", body)
	}
	status, body := patch(`{"requests": {"rate": 0.01, "burstSeconds": 100}}`)
	if status != http.StatusOK || !strings.Contains(body, "0.01") {
		t.Fatalf("patch of the rate = %d %s; want 200 and the new state", status, body)
	}
	serves(t, p.url("orders"))
	if a := mustGet(t, p.url("orders")); a.status != http.StatusTooManyRequests {
		t.Errorf("after the patch: %d; want 429", a.status)
	}
	if status, body := patch(`{"mode": "off"}`); status != http.StatusOK {
		t.Fatalf("patch of the mode = %d %s", status, body)
	}
	serves(t, p.url("orders"))
	if status, body := patch(`{"mode": "enforce", "requests": {"rate": 0}, "partitions": {"default": {"limit": {"algorithm": "fixed", "limit": 7}}}}`); status != http.StatusOK {
		t.Fatalf("patch of the limit = %d %s", status, body)
	}
	p.becomes(`admitd_concurrency_limit{algorithm="fixed",ingress="orders",partition="default"}`, 7)

	for _, wrong := range []string{`{"mode": "loud"}`, `{"requests": {"rate": -1}}`, `{"colour": "red"}`, `{`, `{"listen": "127.0.0.1:1"}`} {
		if status, body := patch(wrong); status != http.StatusBadRequest {
			t.Errorf("patch %s = %d %s; want 400", wrong, status, body)
		}
	}
	if status, _ := p.api(http.MethodPatch, "/v1/ingresses/nobody", `{"mode": "off"}`); status != http.StatusNotFound {
		t.Errorf("patch of an unknown ingress = %d; want 404", status)
	}
	if status, body := p.api(http.MethodPost, "/v1/reload", ""); status != http.StatusOK {
		t.Fatalf("reload = %d %s", status, body)
	}
	p.becomes(`admitd_concurrency_limit{algorithm="knee",ingress="orders",partition="default"}`, 20)
}

// Ingresses come, go and are renamed by a reload. A renamed one could not have
// its own address once, because the old one still held it.
func TestIngressesComeAndGo(t *testing.T) {
	b := startBackend(t)
	one := fmt.Sprintf(orders, b.URL, "10s", 0)
	p := startProcess(t, one)
	p.put(one + fmt.Sprintf("  - { name: more, listen: \"127.0.0.1:0\", backend: %q }\n", b.URL))
	serves(t, p.url("more"))
	inFlight := b.hold(t, p.url("more"))
	p.put(one)
	waitFor(t, "the ingress to be gone", func() bool { _, err := get(p.url("more")); return err != nil })
	serves(t, p.url("orders"))

	address := freeAddress(t)
	p.put(fmt.Sprintf("ingresses:\n  - { name: orders, listen: %q, backend: %q }\n", address, b.URL))
	serves(t, "http://"+address)
	p.put(fmt.Sprintf("ingresses:\n  - { name: renamed, listen: %q, backend: %q }\n", address, b.URL))
	serves(t, "http://"+address)
	b.release()
	inFlight.served(t)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}
