package httpgate_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// RequestTimeout is for the head of the answer. A body whose first bytes came
// later than that was once cut off, and taken for an overloaded backend.
func TestLateBody(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-time.After(time.Second)
		_, _ = io.WriteString(w, "late")
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{RequestTimeout: 700 * time.Millisecond})
	resp, err := newClient(t, "1").Get(g.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "late" {
		t.Errorf("body %q (%v), want it whole", body, err)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Success {
		t.Errorf("outcome %v, want success", e.outcome)
	}
}

// The other way round: a backend that stalls right behind its head is bounded by
// StreamIdle, however long it may take to answer at all.
func TestStalledBody(t *testing.T) {
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = readRequestHead(br)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
		_, _ = io.Copy(io.Discard, br)
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{RequestTimeout: time.Hour, StreamIdle: 100 * time.Millisecond})
	resp, err := newClient(t, "1").Get(g.url)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil {
		t.Error("the answer is whole, want it cut off")
	}
	if e := g.ends.wait(t); e.outcome != limiter.Dropped {
		t.Errorf("outcome %v, want dropped", e.outcome)
	}
}

// An upload may take as long as it flows. The bound on writing the answer once
// ran from the request's head on, so that a long upload was never answered.
func TestLongUploadIsAnswered(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	})
	for _, proto := range []string{"1", "2"} {
		for late := true; late; { // one that was held up by the machine tells nothing
			g := start(t, backend, limiter.Policy{}, httpgate.Options{RequestTimeout: 300 * time.Millisecond, StreamIdle: 600 * time.Millisecond})
			body, in := io.Pipe()
			flowed := make(chan bool, 1)
			go func() { flowed <- trickle(in, 45, 40*time.Millisecond, 300*time.Millisecond) }() // longer than the bound, 1.5 s
			resp, err := newClient(t, proto).Post(g.url, "text/plain", body)
			_ = body.Close() // the trickle ends
			if late = !<-flowed; late {
				if err == nil {
					resp.Body.Close()
				}
				continue
			}
			if err != nil {
				t.Fatalf("HTTP/%s: %v", proto, err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusCreated {
				t.Errorf("HTTP/%s: status %d, want 201", proto, resp.StatusCode)
			}
			if e := g.ends.wait(t); e.outcome != limiter.Success {
				t.Errorf("HTTP/%s: outcome %v, want success", proto, e.outcome)
			}
		}
	}
}

// trickle sends n pieces of a body at a steady pace, and reports whether none of the
// pauses between them was as long as most.
func trickle(to *io.PipeWriter, n int, pause, most time.Duration) (steady bool) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	steady = true
	for last := time.Now(); n > 0; n-- {
		<-tick.C
		if _, err := io.WriteString(to, strings.Repeat("x", 100)); err != nil {
			return steady
		}
		now := time.Now()
		steady = steady && now.Sub(last) < most
		last = now
	}
	_ = to.Close()
	return steady
}

// A trailer may not frame, route or sign a message: a backend that merges
// trailers into the header would believe the client.
func TestRequestTrailersThatFrame(t *testing.T) {
	sent := make(chan string, 1)
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = readRequestHead(br)
		var b strings.Builder
		for !strings.HasSuffix(b.String(), "\r\n\r\n") {
			line, err := br.ReadString('\n')
			b.WriteString(line)
			if err != nil {
				break
			}
		}
		sent <- b.String()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n"+
		"X-Sum: 1\r\nContent-Length: 7\r\nTransfer-Encoding: gzip\r\nHost: b\r\nX-Forwarded-For: 10.0.0.1\r\nConnection: X-Sum\r\n\r\n")
	if status, _, err := readAnswer(br); status != http.StatusOK || err != nil {
		t.Errorf("answer %d (%v), want 200", status, err)
	}
	if got, want := <-sent, "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"; got != want {
		t.Errorf("the backend got %q, want %q", got, want)
	}
}

// A request may wait in the queue for longer than an answer may take: the wait
// was once part of the bound, and who had waited was cut off half-way.
func TestLongWaitIsAnswered(t *testing.T) {
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	for _, proto := range []string{"1", "2"} {
		t.Run("HTTP/"+proto, func(t *testing.T) {
			t.Parallel()
			g := start(t, backend, limiter.Policy{Default: limiter.PartitionPolicy{
				NewLimit: func() limiter.Limit { return fixed(1) }, QueueDepth: 1, MaxWait: time.Minute,
			}}, httpgate.Options{RequestTimeout: 300 * time.Millisecond, StreamIdle: 300 * time.Millisecond})
			first, err := g.gate.Admit(t.Context(), limiter.Request{})
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(1200*time.Millisecond, func() { first.End(limiter.Ignored) }) // the bound is 900 ms
			resp, err := newClient(t, proto).Get(g.url)
			if err != nil {
				t.Fatalf("%v, want an answer after the wait", err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d, want 200", resp.StatusCode)
			}
		})
	}
}

// Over HTTP/2 a body that nobody reads ends its stream. It once ended the whole
// connection, and with it those of requests that had nothing to do with it.
func TestFailedUploadKeepsConnection(t *testing.T) {
	backend := serveRaw(t, func(net.Conn, *bufio.Reader) {}) // closes
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	for id := uint32(1); id < 6; id += 2 {
		c.Begin(id, "POST", "/")
		_ = c.Send(id, true, make([]byte, 100_000)) // it may be told to stop
		if got := c.Answer(id); got.Status != "502" {
			t.Errorf("stream %d: %+v, want 502", id, got)
		}
	}
	if n := g.Status().Connections.Open; n != 1 {
		t.Errorf("%d connections are open after three requests, want the one", n)
	}
}

// A backend that hangs up in the middle of an upload is to blame for it. Over
// HTTP/1.1 giving the upload up once looked as if the client had left, which was
// cut off instead of told, and the backend's failure was not counted.
func TestBackendFailsDuringUpload(t *testing.T) {
	backend := serveRaw(t, func(_ net.Conn, br *bufio.Reader) { _, _ = readRequestHead(br) }) // closes
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
	if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadGateway {
		t.Errorf("answer %v, %v; want 502", r.Response, err)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Dropped {
		t.Errorf("outcome %v, want dropped", e.outcome)
	}
	if n := g.Status().Backends[0].Failures[ingress.HungUp]; n != 1 {
		t.Errorf("%d failures of the backend counted, want 1", n)
	}
}

// Connections to the backend that nobody uses are closed although no other
// request comes by: they were once looked at only when one did.
func TestIdleBackendConnectionIsClosed(t *testing.T) {
	gone := make(chan struct{}, 1)
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = readRequestHead(br)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_, _ = br.ReadByte()
		gone <- struct{}{}
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{IdleTimeout: 100 * time.Millisecond})
	if resp, _ := get(t, g.url); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %s, want 200", resp.Status)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the idle connection is still open, want it closed after 100 ms")
	}
	g.idle(t, 0)
}

// A request that was admitted before the drain may still switch protocols: the
// gate once hung up on it, although the backend had done its part.
func TestDrainFinishesUpgrade(t *testing.T) { inLanes(t, drainFinishesUpgrade) }

func drainFinishesUpgrade(t *testing.T, l lane) {
	t.Helper()
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = readRequestHead(br)
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(c, br)
	})
	g := l.start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := l.dial(t, g.addr)
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
	<-arrived
	drained := make(chan error)
	go func() { drained <- g.Drain(t.Context()) }()
	for !g.gate.Status().Draining {
		runtime.Gosched()
	}
	<-time.After(50 * time.Millisecond) // the listener is closed by then
	close(release)
	resp, err := readReply(br)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("answer %v, %v; want 101", resp.Response, err)
	}
	closeWrite(c)
	if rest, err := io.ReadAll(br); err != nil || string(rest) != "hello" {
		t.Errorf("read %q, %v; want the echo", rest, err)
	}
	if err := <-drained; err != nil {
		t.Errorf("Drain = %v", err)
	}
}

// hijacked is the answer to a client that net/http hands over in the moment that
// between tells of.
type hijacked struct {
	http.ResponseWriter
	conn    net.Conn
	between func()
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.between()
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// A drain once looked for tunnels between net/http's forgetting of a client and
// its becoming one, was over, and the client was hung up on.
func TestDrainAsATunnelBegins(t *testing.T) {
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = readRequestHead(br)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(c, br)
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	client, server := net.Pipe()
	drained := make(chan error, 1)
	w := hijacked{httptest.NewRecorder(), server, func() {
		go func() { drained <- g.Drain(context.WithoutCancel(t.Context())) }()
		select {
		case err := <-drained:
			t.Errorf("the drain is over: %v", err)
			drained <- err
		case <-time.After(100 * time.Millisecond): // it waits, and would for longer
		}
	}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	go g.ServeHTTP(w, r)
	br := bufio.NewReader(client)
	if resp, err := readReply(br); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answer %v, %v; want 101", resp.Response, err)
	}
	_, _ = io.WriteString(client, "hello")
	if echo, err := br.Peek(5); err != nil || string(echo) != "hello" {
		t.Errorf("read %q, %v; want the echo", echo, err)
	}
	_ = client.Close()
	if err := <-drained; err != nil {
		t.Errorf("Drain = %v", err)
	}
}

// Clients that drip a body hold a permit without using the backend. They are cut
// off when their average is below the rate, also when they are never silent for
// long; an answer that has begun frees them.
func TestDrippingBody(t *testing.T) {
	backend := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for name, length := range map[string]string{"small": "Content-Length: 500\r\n", "large": "Content-Length: 500000\r\n", "chunked": "Transfer-Encoding: chunked\r\n"} {
		t.Run(name, func(t *testing.T) {
			g := start(t, backend, limiter.Policy{}, httpgate.Options{MinBodyRate: 1000, BodyGrace: 50 * time.Millisecond, StreamIdle: time.Hour})
			c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\n"+length+"\r\n"); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			defer close(over)
			go drip(c, name == "chunked", over)
			if e := g.ends.wait(t); e.outcome != limiter.Ignored {
				t.Errorf("outcome %v; want ignored: the backend is not to blame", e.outcome)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusRequestTimeout {
				t.Errorf("status %d; want 408", resp.StatusCode)
			}
		})
	}
}

// drip sends a byte every few milliseconds.
func drip(c net.Conn, chunked bool, over <-chan struct{}) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	piece := "x"
	if chunked {
		piece = "1\r\nx\r\n"
	}
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
	}
}
