package httpgate_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// Bodies of every size and frame arrive unchanged, both ways, over HTTP/1.1 and
// HTTP/2.
func TestBodiesPassUnchanged(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Sum", fmt.Sprintf("%x", sha256.Sum256(body)))
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		if r.URL.Query().Get("frame") == "length" {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		} else {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(body)
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	for _, proto := range []string{"1", "2"} {
		client := newClient(t, proto)
		for _, size := range []int{0, 1, 100, 4095, 4096, 16 << 10, 16<<10 + 1, 100_000, 3 << 20} {
			for _, frame := range []string{"length", "chunked"} {
				name := fmt.Sprintf("HTTP/%s %d bytes %s", proto, size, frame)
				payload := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
				var body io.Reader = bytes.NewReader(payload)
				if frame == "chunked" {
					body = io.MultiReader(body) // hides the length
				}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/?frame="+frame, body)
				resp, err := client.Do(req)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || !bytes.Equal(got, payload) {
					t.Errorf("%s: %d bytes came back (%v), want the same %d", name, len(got), err, size)
				}
				if sum := fmt.Sprintf("%x", sha256.Sum256(payload)); resp.Header.Get("X-Sum") != sum {
					t.Errorf("%s: the backend saw other bytes", name)
				}
				if e := g.ends.wait(t); e.outcome != limiter.Success {
					t.Errorf("%s: outcome %v, want success", name, e.outcome)
				}
			}
		}
	}
	if st := g.Status(); st.BackendDials > 4 {
		t.Errorf("%d connections to the backend for requests one after the other, want them kept", st.BackendDials)
	}
}

// newClient returns a client that speaks HTTP/1.1 or HTTP/2 without TLS.
func newClient(t *testing.T, proto string) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, TLSClientConfig: anybody()}
	tr.Protocols.SetHTTP1(proto == "1")
	tr.Protocols.SetUnencryptedHTTP2(proto == "2")
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// What the backend gets, byte for byte: end-to-end headers pass, those of the
// connection do not, and the client's address is appended.
func TestRequestHead(t *testing.T) {
	heads := make(chan string, 8)
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		for {
			head, err := readRequestHead(br)
			if err != nil {
				return
			}
			heads <- head
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{Via: true})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "GET /a%2Fb?q=1;2 HTTP/1.1\r\nHost: example.org\r\nTraceparent: 00-abc-def-01\r\n"+
		"Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\nTE: trailers, deflate\r\n"+
		"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nVia: 1.0 a\r\n\r\n")
	if resp, err := readReply(br); err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("answer %v, %v", resp, err)
	}
	head := <-heads
	line, rest, _ := strings.Cut(head, "\r\n")
	if line != "GET /a%2Fb?q=1;2 HTTP/1.1" {
		t.Errorf("request line %q", line)
	}
	h, err := textproto.NewReader(bufio.NewReader(strings.NewReader(rest))).ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	want := textproto.MIMEHeader{
		"Host": {"example.org"}, "Traceparent": {"00-abc-def-01"}, "Te": {"trailers"},
		"X-Forwarded-For": {"9.9.9.9, 127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"example.org"},
		"Via": {"1.0 a", "1.1 admitd"},
	}
	if len(h) != len(want) {
		t.Errorf("head %q: %d fields, want %d", head, len(h), len(want))
	}
	for name, values := range want {
		if got := h[name]; fmt.Sprint(got) != fmt.Sprint(values) {
			t.Errorf("%s = %q, want %q", name, got, values)
		}
	}
}

// Headers of the answer pass, in order where there are several, without those
// of the connection; nothing is guessed.
func TestAnswerHead(t *testing.T) {
	backend := serveRaw(t, always("HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"+
		"Keep-Alive: 5\r\nContent-Length: 5\r\nx-lower: v\r\n\r\n<html"))
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	resp, body := get(t, g.url)
	if body != "<html" || resp.ContentLength != 5 {
		t.Errorf("body %q of length %d", body, resp.ContentLength)
	}
	h := resp.Header
	if got := fmt.Sprint(h["Set-Cookie"], h["X-Lower"]); got != "[a b] [v]" {
		t.Errorf("fields %s, want [a b] [v]", got)
	}
	for _, name := range []string{"X-Hop", "Keep-Alive", "Content-Type", "Connection"} {
		if v, ok := h[name]; ok {
			t.Errorf("%s: %q passed", name, v)
		}
	}
}

// Interim answers and trailers pass, both ways.
func TestInterimAndTrailers(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Sum", r.Trailer.Get("X-Client"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "late")
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	for _, proto := range []string{"1", "2"} {
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
				return nil
			},
		})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.url, io.MultiReader(strings.NewReader("x")))
		req.Trailer = http.Header{"X-Client": {"from the client"}}
		resp, err := newClient(t, proto).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "hello" || resp.Trailer.Get("X-Sum") != "from the client" || resp.Trailer.Get("X-Late") != "late" {
			t.Errorf("HTTP/%s: body %q, trailers %v", proto, body, resp.Trailer)
		}
		if want := "[103 </a.css>; rel=preload]"; fmt.Sprint(hints) != want {
			t.Errorf("HTTP/%s: interim answers %v, want %s", proto, hints, want)
		}
	}
}

// Each event of a stream arrives before the next is sent, and its permit ends
// when the stream begins.
func TestEventStream(t *testing.T) {
	for _, hold := range []bool{false, true} {
		next := make(chan string)
		backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(w)
			_ = rc.Flush()
			for {
				select {
				case ev := <-next:
					_, _ = io.WriteString(w, "data: "+ev+"\n\n")
					_ = rc.Flush()
				case <-r.Context().Done():
					return
				}
			}
		})
		g := start(t, backend, limiter.Policy{}, httpgate.Options{HoldStreams: hold})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(resp.Body)
		for _, ev := range []string{"one", "two"} {
			next <- ev
			if line, err := br.ReadString('\n'); line != "data: "+ev+"\n" {
				t.Fatalf("line %q, %v; want %q", line, err, ev)
			}
			_, _ = br.ReadString('\n')
		}
		want := 0
		if hold {
			want = 1
		} else if e := g.ends.wait(t); e.outcome != limiter.Success {
			t.Errorf("outcome %v, want success", e.outcome)
		}
		if got := g.gate.Status().InFlight; got != want {
			t.Errorf("hold %v: %d permits held by a stream, want %d", hold, got, want)
		}
		resp.Body.Close()
		if hold {
			if e := g.ends.wait(t); e.outcome != limiter.Ignored {
				t.Errorf("outcome %v when the client left, want ignored", e.outcome)
			}
		}
	}
}

// A connection that switches protocols carries bytes both ways, including those
// that came with the head, and ends when both sides have.
func TestUpgrade(t *testing.T) {
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		head, err := readRequestHead(br)
		if err != nil || !strings.Contains(head, "Upgrade: websocket\r\n") || !strings.Contains(head, "Connection: Upgrade\r\n") {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhello ")
		_, _ = io.Copy(c, br)
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nworld")
	resp, err := readReply(br)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != "x" || resp.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("answer %v, %v", resp, err)
	}
	got := make([]byte, len("hello world"))
	if _, err := io.ReadFull(br, got); err != nil || string(got) != "hello world" {
		t.Errorf("read %q, %v", got, err)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Success {
		t.Errorf("outcome %v, want success", e.outcome)
	}
	if n := g.Status().Tunnels; n != 1 {
		t.Errorf("%d tunnels, want 1", n)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v; want the end", rest, err)
	}
}

// TLS in, with HTTP/2, and TLS out.
func TestTLSBothSides(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Proto"))
	}))
	defer srv.Close()
	pool := srv.Client().Transport.(*http.Transport).TLSClientConfig
	var o httpgate.Options
	o.BackendTLS = &tls.Config{RootCAs: pool.RootCAs, ServerName: "example.com"}
	o.Ingress.TLS = &tls.Config{Certificates: srv.TLS.Certificates}
	g := start(t, srv.URL, limiter.Policy{}, o)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool.RootCAs, ServerName: "example.com"}, ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	for range 3 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+g.addr, nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.ProtoMajor != 2 || string(body) != "https" {
			t.Errorf("HTTP/%d, body %q; want 2 and https", resp.ProtoMajor, body)
		}
	}
	if st := g.Status(); st.BackendDials != 1 {
		t.Errorf("%d TLS handshakes with the backend, want 1", st.BackendDials)
	}
}

// An answer that comes before the body is through is passed on at once.
func TestEarlyAnswer(t *testing.T) {
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := readRequestHead(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
			_, _ = io.Copy(io.Discard, br)
		}
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nonly this")
	resp, err := readReply(br)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusForbidden || resp.body != "no" || !resp.Close {
		t.Errorf("answer %d %q, close %v; want 403, no, close", resp.StatusCode, resp.body, resp.Close)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Ignored {
		t.Errorf("outcome %v, want ignored", e.outcome)
	}
}

// A client that reads slowly does not look like a slow backend.
func TestSlowReaderIsNotSampled(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 8<<20))
	})
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	began := time.Now()
	time.Sleep(time.Second) // the client's sloth is what is tested
	resp, err := readReply(br)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(resp.body); n != 8<<20 {
		t.Fatalf("%d bytes", n)
	}
	e := g.ends.wait(t)
	if total := time.Since(began); e.latency > total-300*time.Millisecond {
		t.Errorf("latency %v of %v; want the second in which the client slept left out", e.latency, total)
	}
}

// A backend that speaks HTTP/2 only is named as that, at once: one over TLS could not be
// reached, and one without was waited for.
func TestBackendOfHTTP2Only(t *testing.T) {
	server, client := keypair.Ends(t, "backend")
	server.NextProtos = []string{"another"}
	over := serveRaw(t, func(c net.Conn, _ *bufio.Reader) { _ = tls.Server(c, server).HandshakeContext(context.Background()) })
	without := serveRaw(t, func(c net.Conn, br *bufio.Reader) { // as grpc-go does
		_, _ = c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
		_, _ = io.Copy(io.Discard, br)
	})
	for name, o := range map[string]httpgate.Options{
		"over TLS": {Backend: "https://" + over, BackendTLS: client}, "without": {Backend: without, RequestTimeout: time.Hour},
	} {
		g := start(t, o.Backend, limiter.Policy{}, o)
		resp, body := get(t, g.url)
		if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "does not speak HTTP/1.1") {
			t.Errorf("%s: answer %s %s, want 502 that says so", name, resp.Status, body)
		}
	}
}
