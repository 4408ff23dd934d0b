package httpgate_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// ends records outcomes, so that a test can wait for a permit's end.
type ends struct{ c chan end }

type end struct {
	latency time.Duration
	outcome limiter.Outcome
}

func newEnds() *ends { return &ends{make(chan end, 1024)} }

func (e *ends) Recorder(string) limiter.Recorder { return e }

func (e *ends) Ended(latency time.Duration, o limiter.Outcome) {
	select {
	case e.c <- end{latency, o}:
	default: // a test that does not look
	}
}

// patience is how long a test waits for what must come, however busy the machine is.
const patience = 30 * time.Second

// wait returns the next end, or fails when none comes.
func (e *ends) wait(t *testing.T) end {
	t.Helper()
	select {
	case got := <-e.c:
		return got
	case <-time.After(patience):
		t.Fatal("no permit ended")
		return end{}
	}
}

// gated is a gate that listens on a loopback port.
type gated struct {
	*httpgate.Server
	gate *limiter.Gate
	ends *ends
	addr string
	url  string
}

// start puts a gate before a backend and drains it at the end of the test.
func start(tb testing.TB, backend string, p limiter.Policy, o httpgate.Options) *gated {
	tb.Helper()
	g := &gated{ends: newEnds()}
	g.gate = limiter.New("orders", &p, limiter.Options{Observer: g.ends})
	if !strings.HasPrefix(backend, "http") {
		backend = "http://" + backend
	}
	o.Backend = backend
	o.Ingress.DrainTimeout = cmp.Or(o.Ingress.DrainTimeout, 2*time.Second)
	var err error
	if g.Server, err = httpgate.New(g.gate, o); err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g.addr, g.url = ln.Addr().String(), "http://"+ln.Addr().String()
	if o.Ingress.TLS != nil {
		g.url = "https://" + g.addr
	}
	served := make(chan error, 1)
	ctx := context.WithoutCancel(tb.Context())
	go func() { served <- g.Serve(ctx, ln) }()
	tb.Cleanup(func() {
		if err := g.Drain(ctx); err != nil && !errors.Is(err, ingress.ErrCut) {
			tb.Errorf("Drain: %v", err)
		}
		if err := <-served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
		if n := g.gate.Status().InFlight; n != 0 {
			tb.Errorf("%d permits are still held after the drain", n)
		}
	})
	return g
}

// idle waits until n connections to the backend are kept, which come back a moment
// after a permit has ended.
func (g *gated) idle(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); g.Status().BackendIdle != n; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections to the backend are kept, want %d", g.Status().BackendIdle, n)
		}
	}
}

// serveHTTP runs a backend.
func serveHTTP(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// serveRaw runs a backend that speaks bytes: one call per connection.
func serveRaw(tb testing.TB, h func(c net.Conn, br *bufio.Reader)) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	tb.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			wg.Go(func() { defer c.Close(); h(c, bufio.NewReader(c)) })
		}
	})
	return ln.Addr().String()
}

// readRequestHead returns the bytes of a request's head.
func readRequestHead(br *bufio.Reader) (string, error) {
	var sb strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return "", err
		}
		sb.WriteString(line)
		if line == "\r\n" {
			return sb.String(), nil
		}
	}
}

// always answers every request on a connection with the same bytes.
func always(answer string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		for {
			if _, err := readRequestHead(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// dial opens a raw connection to the gate.
func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c, bufio.NewReader(c)
}

// anybody is a client that does not ask for a name. Each has its own: a client of
// HTTP/2 writes into it.
func anybody() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// reply is an answer whose body has been read.
type reply struct {
	*http.Response // its Body is used up
	body           string
}

// get requests a URL.
func get(t *testing.T, url string) (reply, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

// do sends a request.
func do(t *testing.T, req *http.Request) (reply, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: anybody()}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", req.Method, req.URL, err)
	}
	return reply{resp, string(body)}, string(body)
}

// readReply reads one answer from a raw connection. One that switches
// protocols has no body.
func readReply(br *bufio.Reader) (reply, error) {
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return reply{resp, ""}, nil
	}
	body, err := io.ReadAll(resp.Body)
	return reply{resp, string(body)}, err
}
