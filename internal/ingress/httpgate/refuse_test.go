package httpgate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/golden"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// full is a policy without a single place.
func full() limiter.Policy {
	return limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1) }}}
}

type fixed int

func (f fixed) Current() int                          { return int(f) }
func (fixed) Observe(int64, time.Duration, int, bool) {}

// The exact bytes of every kind of refusal. Waits are left out here, because
// they are jittered; TestRefusalHints is about them.
func TestRefusalBytes(t *testing.T) {
	rate := limiter.Policy{Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 100}}
	draining := func(g *limiter.Gate) { g.Drain() }
	occupy := func(g *limiter.Gate) { _, _ = g.TryAdmit(g.Now(), limiter.Request{Key: "acme"}) }
	for name, tc := range map[string]struct {
		policy  limiter.Policy
		prepare func(*limiter.Gate)
		status  int
		cost    string
	}{
		"request_rate":       {policy: rate, prepare: occupy},
		"concurrency_limit":  {policy: full(), prepare: occupy},
		"cost_exceeds_burst": {policy: rate, prepare: func(*limiter.Gate) {}, cost: "50"},
		"draining":           {policy: full(), prepare: draining},
		"status_462":         {policy: full(), prepare: occupy, status: 462},
		"status_429":         {policy: full(), prepare: occupy, status: 429},
	} {
		t.Run(name, func(t *testing.T) {
			gate := limiter.New("orders", &tc.policy, limiter.Options{})
			tc.prepare(gate)
			s, err := httpgate.New(gate, httpgate.Options{
				Backend: "http://127.0.0.1:1", By: []string{"header:X-Tenant"}, CostHeader: "X-Cost",
				Status: tc.status, NoHints: true, Rate: func(string) limiter.Rate { return tc.policy.Rate },
			})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header.Set("X-Tenant", "acme")
			r.Header.Set("X-Cost", tc.cost)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			var got strings.Builder
			_ = w.Result().Write(&got)
			golden.Text(t, name+".golden", got.String())
			doc, err := labels.Parse(w.Body.Bytes())
			if err != nil {
				t.Fatalf("the body is not a rejection: %v", err)
			}
			if doc.Status != w.Code || string(doc.Reason) != w.Header().Get(labels.HeaderReason) {
				t.Errorf("document says %d %s, head says %d %s", doc.Status, doc.Reason, w.Code, w.Header().Get(labels.HeaderReason))
			}
		})
	}
}

// A rejection tells when to come back, never "now", and names the rate that
// bound it.
func TestRefusalHints(t *testing.T) {
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	p := limiter.Policy{Rate: limiter.Rate{PerSecond: 2, BurstSeconds: 0.5}}
	g := start(t, backend, p, httpgate.Options{Rate: func(string) limiter.Rate { return p.Rate }})
	if resp, _ := get(t, g.url); resp.StatusCode != http.StatusOK {
		t.Fatalf("first request: %s", resp.Status)
	}
	resp, body := get(t, g.url)
	doc, err := labels.Parse([]byte(body))
	if err != nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("%s, %q: %v", resp.Status, body, err)
	}
	if doc.RetryAfterMS <= 0 || doc.RetryAfterMS > 5000 {
		t.Errorf("retryAfterMS = %d, want about 500", doc.RetryAfterMS)
	}
	if !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(resp.Header.Get("Retry-After")) {
		t.Errorf("Retry-After = %q, want at least 1", resp.Header.Get("Retry-After"))
	}
	if got, want := resp.Header.Get("RateLimit-Policy"), `"requests";q=2;w=1`; got != want {
		t.Errorf("RateLimit-Policy = %q, want %q", got, want)
	}
	if got, want := resp.Header.Get("RateLimit"), `"requests";r=0;t=`+resp.Header.Get("Retry-After"); got != want {
		t.Errorf("RateLimit = %q, want %q", got, want)
	}
}

// A refused request leaves the connection usable when its body is small, and
// closes it when reading the body would cost more than a new connection. The
// refusal never waits for the body.
func TestRefusalAndBody(t *testing.T) {
	g := start(t, "127.0.0.1:1", full(), httpgate.Options{})
	permit, err := g.gate.TryAdmit(0, limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer permit.End(limiter.Ignored)
	for _, tc := range []struct {
		name, head, later string
		keep              bool
	}{
		{"none", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", true},
		{"small", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "hello", true},
		{"pipelined", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "", true},
		{"large", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n", "", false},
		{"chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "", false},
		{"expect", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", "", false},
	} {
		c, br := dial(t, g.addr)
		_, _ = io.WriteString(c, tc.head)
		resp, err := readReply(br)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if _, err := labels.Parse([]byte(resp.body)); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s %q, want a rejection", tc.name, resp.Status, resp.body)
		}
		if resp.Close == tc.keep {
			t.Errorf("%s: close = %v, want %v", tc.name, resp.Close, !tc.keep)
		}
		_, _ = io.WriteString(c, tc.later)
		_, _ = io.WriteString(c, "GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
		second, err := readReply(br)
		if ok := err == nil && second.StatusCode == http.StatusServiceUnavailable; ok != tc.keep {
			t.Errorf("%s: second request answered = %v (%v), want %v", tc.name, ok, err, tc.keep)
		}
	}
	if n := g.Status().BackendDials; n != 0 {
		t.Errorf("%d connections to the backend for refused requests", n)
	}
}

// 100-continue is sent only once the request is admitted.
func TestExpectContinue(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q", body, r.Header["Expect"])
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if line, err := br.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v; want 100", line, err)
	}
	_, _ = br.ReadString('\n')
	_, _ = io.WriteString(c, "hello")
	resp, err := readReply(br)
	if err != nil {
		t.Fatal(err)
	}
	if resp.body != "hello []" {
		t.Errorf("backend saw %q, want hello without Expect", resp.body)
	}
}

// The deadline header bounds the wait in the queue and that for the backend. The
// permit ends with the backend's work, as if the client had waited: 150 ms of
// patience once counted as a drop, by which twelve connections took everybody's
// limit from 100 to 1 although the backend was well.
func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) { <-release })
	p := full()
	p.Default.QueueDepth, p.Default.MaxWait = 5, time.Minute
	g := start(t, backend, p, httpgate.Options{})
	for _, ms := range []string{"1000", "200"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
		req.Header.Set(labels.HeaderDeadline, ms)
		began := time.Now()
		resp, body := do(t, req)
		if took := time.Since(began); resp.StatusCode != http.StatusGatewayTimeout || took > 5*time.Second {
			t.Errorf("deadline %s ms: %s after %v, want 504 in time", ms, resp.Status, took)
		}
		if _, err := labels.Parse([]byte(body)); err == nil {
			t.Errorf("a timeout was answered as a rejection, after which clients take it that no work ran: %s", body)
		}
		if n := g.gate.Status().InFlight; n != 1 {
			t.Errorf("deadline %s ms: %d permits held while the backend works, want 1", ms, n)
		}
		release <- struct{}{}
		if e := g.ends.wait(t); e.outcome != limiter.Success {
			t.Errorf("deadline %s ms: outcome %v, want success", ms, e.outcome)
		}
	}
	if n := g.Status().Backends[0].Failures[ingress.Silent]; n != 0 {
		t.Errorf("the backend is blamed for %d deadlines of clients, want none", n)
	}
	permit, err := g.gate.TryAdmit(g.gate.Now(), limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer permit.End(limiter.Ignored)
	for ms, want := range map[string]labels.Reason{"5000": labels.QueueTimeout, "1": labels.ConcurrencyLimit} {
		// The latter is nearer than its turn: requests took longer so far.
		if ms == "5000" {
			p.Default.MaxWait = time.Millisecond
			g.gate.Apply(&p)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
		req.Header.Set(labels.HeaderDeadline, ms)
		if resp, _ := do(t, req); resp.Header.Get(labels.HeaderReason) != string(want) {
			t.Errorf("in the queue with a deadline of %s ms: %s %v, want %s", ms, resp.Status, resp.Header, want)
		}
	}
}

// The gate's own hello is answered before admission, and only when there is
// one. A gate that drains says so there, so that clients stop choosing it.
func TestHello(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "backend") })
	without := start(t, backend, limiter.Policy{}, httpgate.Options{})
	if _, body := get(t, without.url+labels.HelloPath); body != "backend" {
		t.Errorf("without a hello: %q; want the backend's answer", body)
	}
	var draining atomic.Bool
	with := start(t, backend, limiter.Policy{}, httpgate.Options{Hello: labels.ServeHello(func() (labels.Hello, bool) {
		return labels.Hello{Name: "orders"}, !draining.Load()
	})})
	_, body := get(t, with.url+labels.HelloPath)
	if h, err := labels.ParseHello([]byte(body)); err != nil || h.Name != "orders" {
		t.Errorf("hello = %q, %v; want the gate's own", body, err)
	}
	with.gate.Drain()
	draining.Store(true)
	if resp, _ := get(t, with.url+labels.HelloPath); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while draining: %d; want 503", resp.StatusCode)
	}
}

// spans records what an observer is told.
type spans struct {
	mu  sync.Mutex // guards got
	got []httpgate.Result
}

func (s *spans) Begin(r *http.Request) (context.Context, httpgate.Span) {
	r.Header.Set("Traceparent", "00-new")
	return r.Context(), s
}

func (s *spans) End(res httpgate.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, res)
}

// The observer sees each request begin and end, and its headers travel on.
func TestObserver(t *testing.T) {
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		head, _ := readRequestHead(br)
		if strings.Contains(head, "Traceparent: 00-new\r\n") {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	var seen spans
	g := start(t, backend, limiter.Policy{Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 100}}, httpgate.Options{
		Observer: &seen, By: []string{"constant:checkout"},
	})
	get(t, g.url)
	get(t, g.url)
	if err := g.Drain(t.Context()); err != nil { // so that both ends were reported
		t.Fatal(err)
	}
	if len(seen.got) != 2 {
		t.Fatalf("%d ends, want 2", len(seen.got))
	}
	slices.SortFunc(seen.got, func(a, b httpgate.Result) int { return a.Status - b.Status }) // each on a connection of its own
	if r := seen.got[0]; r.Status != 200 || r.Partition != "checkout" || r.Outcome != limiter.Success || r.Err != nil {
		t.Errorf("first end %+v", r)
	}
	if r := seen.got[1]; r.Status != 429 || r.Err == nil {
		t.Errorf("second end %+v, want a rejection", r)
	}
}
