package httpgate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// How each thing a backend can do is answered and counted. Nothing panics, no
// answer looks like a rejection, and the permit ends.
func TestBadBackends(t *testing.T) {
	type backend = func(c net.Conn, br *bufio.Reader)
	big := "HTTP/1.1 200 OK\r\nX-Big: " + strings.Repeat("x", 70<<10) + "\r\n\r\n"
	for name, tc := range map[string]struct {
		backend backend
		status  int // 0 = the answer is cut off
		outcome limiter.Outcome
	}{
		"dies":             {func(net.Conn, *bufio.Reader) {}, 502, limiter.Dropped},
		"dies in head":     {always("HTTP/1.1 200 O"), 504, limiter.Dropped},
		"hangs":            {func(_ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) }, 504, limiter.Dropped},
		"garbage":          {always("\x00\x01\x02 garbage\r\n\r\n"), 502, limiter.Ignored},
		"not HTTP":         {always("SSH-2.0-OpenSSH\r\n\r\n"), 502, limiter.Ignored},
		"head too large":   {always(big), 502, limiter.Ignored},
		"folded header":    {always("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"), 502, limiter.Ignored},
		"two lengths":      {always("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 502, limiter.Ignored},
		"length and chunk": {always("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 502, limiter.Ignored},
		"unasked 101":      {always("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), 502, limiter.Ignored},
		"endless 103":      {always(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20)), 502, limiter.Ignored},
		"short body": {func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequestHead(br)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		}, 0, limiter.Dropped},
		"bad chunk": {always("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"), 0, limiter.Ignored},
		"429":       {always("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"), 429, limiter.Ignored}, // it is about one client, and once shrank the limit of all
		"503":       {always("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), 503, limiter.Dropped},
		"500":       {always("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), 500, limiter.Ignored},
		"404":       {always("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), 404, limiter.Success},
		"to the end": {func(c net.Conn, br *bufio.Reader) {
			_, _ = readRequestHead(br)
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nabc")
		}, 200, limiter.Success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := patience
			if tc.status == http.StatusGatewayTimeout {
				timeout = 150 * time.Millisecond
			}
			g := start(t, serveRaw(t, tc.backend), limiter.Policy{}, httpgate.Options{RequestTimeout: timeout})
			c, br := dial(t, g.addr)
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			status, body, err := readAnswer(br)
			if tc.status == 0 && err == nil {
				t.Errorf("answer %d %q, want it cut off", status, body)
			}
			if tc.status != 0 && (status != tc.status || err != nil) {
				t.Errorf("answer %d %q (%v), want %d", status, body, err, tc.status)
			}
			if _, err := labels.Parse(body); err == nil {
				t.Errorf("answer looks like a rejection: %s", body)
			}
			if e := g.ends.wait(t); e.outcome != tc.outcome {
				t.Errorf("outcome %v, want %v", e.outcome, tc.outcome)
			}
		})
	}
}

// readAnswer reads a whole answer, past interim ones.
func readAnswer(br *bufio.Reader) (status int, body []byte, err error) {
	for {
		resp, err := readReply(br)
		if resp.Response == nil {
			return 0, nil, err
		}
		if resp.StatusCode >= 200 {
			return resp.StatusCode, []byte(resp.body), err
		}
	}
}

// An address nobody listens on is a drop, answered 502.
func TestNoBackend(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	g := start(t, ln.Addr().String(), limiter.Policy{}, httpgate.Options{})
	if resp, body := get(t, g.url); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("answer %s %q, want 502", resp.Status, body)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Dropped {
		t.Errorf("outcome %v, want dropped", e.outcome)
	}
}

// Where the backend stops when it is hung up on, a client that leaves may end its
// permit, and takes the backend's work down with it, over both protocols.
func TestClientLeavesAndCancels(t *testing.T) {
	for _, proto := range []string{"1", "2"} {
		arrived, left := make(chan struct{}, 1), make(chan struct{}, 1)
		backend := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		})
		g := start(t, backend, limiter.Policy{}, httpgate.Options{CancelAbandoned: true})
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, g.url, nil)
		go func() { <-arrived; cancel() }()
		if resp, err := newClient(t, proto).Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("HTTP/%s: answered %s", proto, resp.Status)
		}
		if e := g.ends.wait(t); e.outcome != limiter.Ignored {
			t.Errorf("HTTP/%s: outcome %v, want ignored", proto, e.outcome)
		}
		<-left
	}
}

// A connection that the backend closes in the moment of its reuse costs an
// idempotent request nothing; any other is not sent twice.
func TestRetryOnlyWhenSafe(t *testing.T) {
	for method, want := range map[string]int{"GET": 200, "PUT": 200, "POST": 502} {
		var requests, conns atomic.Int32
		backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
			n := conns.Add(1)
			for i := 0; ; i++ {
				head, err := readRequestHead(br)
				if err != nil {
					return
				}
				if strings.Contains(head, "Content-Length: 2") {
					_, _ = br.Discard(2)
				}
				requests.Add(1)
				if n == 1 && i == 1 {
					return // dies having read the second request
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		g := start(t, backend, limiter.Policy{}, httpgate.Options{})
		get(t, g.url)
		g.idle(t, 1) // it comes back a moment after the answer
		req, _ := http.NewRequestWithContext(t.Context(), method, g.url, strings.NewReader("hi"))
		if method == "GET" {
			req.Body, req.ContentLength = http.NoBody, 0
		}
		if resp, _ := do(t, req); resp.StatusCode != want {
			t.Errorf("%s on a connection that dies: %s, want %d", method, resp.Status, want)
		}
		if n, retries := requests.Load(), g.Status().Retries; (want == 200) != (n == 3 && retries == 1) {
			t.Errorf("%s: the backend saw %d requests, %d retries", method, n, retries)
		}
	}
}

// What a backend sends unasked on an idle connection is nobody's answer.
func TestUnaskedAnswerIsDropped(t *testing.T) {
	var conns atomic.Int32
	sent := make(chan struct{})
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		n := conns.Add(1)
		for {
			if _, err := readRequestHead(br); err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", n)
			if n == 1 {
				<-sent
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
				sent <- struct{}{}
			}
		}
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	get(t, g.url)
	sent <- struct{}{}
	<-sent
	if _, body := get(t, g.url); body != "2" {
		t.Errorf("second answer %q, want 2 from a new connection", body)
	}
}

// Requests that two parsers may read differently are refused, or reach the
// backend as exactly one request.
func TestSmuggling(t *testing.T) { inLanes(t, smuggling) }

func smuggling(t *testing.T, l lane) {
	t.Helper()
	const inner = "GET /smuggled HTTP/1.1\r\nHost: bbbb\r\n\r\n"
	for name, raw := range map[string]string{
		"both, chunked wins":  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"both, length longer": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"two lengths":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 38\r\n\r\n" + inner,
		"length list":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 38\r\n\r\n" + inner,
		"length plus":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +38\r\n\r\n" + inner,
		"xchunked":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"chunked identity":    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"TE tab":              "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
		"space before colon":  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 38\r\n\r\n" + inner,
		"TE space colon":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"obs-fold":            "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n Transfer-Encoding: chunked\r\n\r\n",
		"bare LF":             "GET / HTTP/1.1\nHost: a\nContent-Length: 0\n\n",
		"bare CR in value":    "GET / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 38\r\n\r\n" + inner,
		"NUL in value":        "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
		"two hosts":           "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"no host":             "GET / HTTP/1.1\r\n\r\n",
		"bad host":            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"absolute form":       "GET http://c/x HTTP/1.1\r\nHost: a\r\n\r\n",
		"space in target":     "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
		"listed length":       "POST / HTTP/1.1\r\nHost: a\r\nConnection: Content-Length, Host, Transfer-Encoding\r\nContent-Length: 3\r\n\r\nabc",
		"chunk extension":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"\r\nabc\r\n0\r\n\r\n",
		"chunk bare LF":       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
		"chunk overflow":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n",
		"GET with body":       "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\n" + inner,
		"CONNECT":             "CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\n",
		"h2c upgrade":         "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"trailer framing":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan string, 64)
			backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
				for {
					r, err := http.ReadRequest(br)
					if err != nil {
						if !errors.Is(err, io.EOF) {
							seen <- "unreadable: " + err.Error()
						}
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					seen <- r.RequestURI + " on " + r.Host
					if r.Header.Get("Http2-Settings") != "" || r.Header.Get("Upgrade") != "" || len(r.Header["Content-Length"]) > 1 {
						seen <- "unreadable: what concerns one connection passed"
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			})
			g := l.start(t, backend, limiter.Policy{}, httpgate.Options{RequestTimeout: time.Second})
			c, br := l.dial(t, g.addr)
			_, _ = io.WriteString(c, raw)
			status, _, err := readAnswer(br)
			closeWrite(c)
			if err != nil && status == 0 && !strings.Contains(name, "chunk") {
				t.Errorf("no answer: %v", err)
			}
			if extra, _ := io.ReadAll(br); len(extra) > 0 && strings.Contains(string(extra), "200 OK") {
				t.Errorf("a second answer: %q", extra)
			}
			_ = g.Drain(t.Context())
			n := 0
			for len(seen) > 0 {
				s := <-seen
				if !strings.HasPrefix(s, "unreadable") {
					n++
				}
				if strings.Contains(s, "smuggled") || strings.HasPrefix(s, "unreadable: what") {
					t.Errorf("the backend saw %s", s)
				}
			}
			if status == http.StatusOK && n != 1 || n > 1 {
				t.Errorf("status %d, the backend saw %d requests", status, n)
			}
		})
	}
}

// A client that dribbles its head, or its body, is cut off in time and harms
// nobody.
func TestSlowloris(t *testing.T) { inLanes(t, slowloris) }

func slowloris(t *testing.T, l lane) {
	t.Helper()
	backend := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	g := l.start(t, backend, limiter.Policy{}, httpgate.Options{HeaderTimeout: 300 * time.Millisecond, StreamIdle: 300 * time.Millisecond})
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\nX: ",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		c, br := l.dial(t, g.addr)
		_, _ = io.WriteString(c, head)
		began := time.Now()
		if rest, err := io.ReadAll(br); err != nil || strings.Contains(string(rest), "200 OK") {
			t.Errorf("%.60q: %q, %v; want it cut off", head, rest, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%.60q: cut off after %v", head, took)
		}
		if resp, _ := get(t, g.url); resp.StatusCode != http.StatusOK {
			t.Errorf("%.60q: another client gets %s", head, resp.Status)
		}
	}
}

// Heads and bodies above their bounds are refused.
func TestBounds(t *testing.T) { inLanes(t, bounds) }

func bounds(t *testing.T, l lane) {
	t.Helper()
	backend := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	g := l.start(t, backend, limiter.Policy{}, httpgate.Options{MaxBody: 100_000, MaxHeader: 8 << 10})
	for name, tc := range map[string]struct {
		head, body string
		want       int
	}{
		"head":    {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", "", 431},
		"length":  {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n", "", 413},
		"chunked": {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "20000\r\n" + strings.Repeat("x", 0x20000) + "\r\n0\r\n\r\n", 413},
		"fits":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", strings.Repeat("x", 100_000), 200},
	} {
		c, br := l.dial(t, g.addr)
		go func() { _, _ = io.WriteString(c, tc.head+tc.body) }()
		if status, _, err := readAnswer(br); status != tc.want {
			t.Errorf("%s: %d, %v; want %d", name, status, err, tc.want)
		}
	}
}

// A drain lets what is in flight finish and refuses what comes on open
// connections, with a reason that tells clients to go elsewhere.
func TestDrainFinishesWhatIsInFlight(t *testing.T) { inLanes(t, drainFinishesWhatIsInFlight) }

func drainFinishesWhatIsInFlight(t *testing.T, l lane) {
	t.Helper()
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "finished")
	})
	g := l.start(t, backend, limiter.Policy{}, httpgate.Options{})
	answer := make(chan string)
	go func() {
		_, body := get(t, g.url)
		answer <- body
	}()
	<-arrived
	drained := make(chan error)
	go func() { drained <- g.Drain(t.Context()) }()
	for !g.gate.Status().Draining {
		runtime.Gosched()
	}
	close(release)
	if body := <-answer; body != "finished" {
		t.Errorf("request in flight was answered %q", body)
	}
	if err := <-drained; err != nil {
		t.Errorf("Drain = %v", err)
	}
}
