package httpgate_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// pattern returns n bytes of which each tells where it is.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	return b
}

// Answers arrive whole through windows of every size. rawhttp2 fails for a byte
// beyond one.
func TestHTTP2Windows(t *testing.T) {
	whole := pattern(150_000)
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) }), limiter.Policy{}, httpgate.Options{})
	for _, window := range []uint32{1, 99, 16 << 10, 65_535, 1 << 20} {
		c := lane{}.speak(t, g.addr, rawhttp2.Options{Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: window}, {ID: http2.SettingHeaderTableSize, Val: 0}}})
		if window == 1 { // a frame for each byte
			c.Ask(1, "HEAD", "/")
			c.Answer(1)
			c.Grant(0, 1)
			continue
		}
		for id := uint32(1); id < 6; id += 2 {
			c.Ask(id, "GET", "/")
		}
		for id := uint32(1); id < 6; id += 2 {
			if got := c.Answer(id); !bytes.Equal(got.Body, whole) || !got.Ended {
				t.Errorf("window %d: %d bytes, ended %v; want the same %d", window, len(got.Body), got.Ended, len(whole))
			}
		}
	}
}

// A window of nothing holds the body back and nothing else: not the head, not other
// answers. SETTINGS that enlarge it later let it go.
func TestHTTP2WindowOfNothing(t *testing.T) {
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write(pattern(30_000))
		}
	}), limiter.Policy{}, httpgate.Options{})
	for name, enlarge := range map[string]func(c *rawhttp2.Conn){
		"a window of the stream": func(c *rawhttp2.Conn) { c.Grant(1, 30_000) },
		"settings":               func(c *rawhttp2.Conn) { c.Enlarge(30_000) },
		"in steps": func(c *rawhttp2.Conn) {
			for range 300 {
				c.Grant(1, 100)
			}
		},
	} {
		c := lane{}.speak(t, g.addr, rawhttp2.Options{Stingy: true, Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}})
		c.Ask(1, "GET", "/")
		c.Ask(3, "DELETE", "/")
		if got := c.Answer(3); got.Status != "200" || !got.Ended {
			t.Errorf("%s: %+v, want 200 while another waits", name, got)
		}
		c.Sync()
		if got := c.Of(1); got.Ended || len(got.Body) > 0 {
			t.Fatalf("%s: %d bytes came without a window", name, len(got.Body))
		}
		enlarge(c)
		if got := c.Answer(1); !bytes.Equal(got.Body, pattern(30_000)) {
			t.Errorf("%s: %d bytes, want 30,000", name, len(got.Body))
		}
	}
}

// The window of the connection is everybody's: answers wait for it, share it, and
// arrive when it opens. One that was reset gives its part back.
func TestHTTP2WindowOfTheConnection(t *testing.T) {
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pattern(50_000)) }), limiter.Policy{}, httpgate.Options{})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{Stingy: true, Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 20}}})
	for id := uint32(1); id < 10; id += 2 {
		c.Ask(id, "GET", "/")
	}
	c.Await("the window to be used up", func() bool { return c.Window() == 0 })
	c.Reset(1)
	c.Sync()
	c.Grant(0, 1<<20)
	for id := uint32(3); id < 10; id += 2 {
		if got := c.Answer(id); !bytes.Equal(got.Body, pattern(50_000)) || !got.Ended {
			t.Errorf("stream %d: %d bytes, ended %v, want 50,000", id, len(got.Body), got.Ended)
		}
	}
}

// Uploads of many windows arrive whole, several at once.
func TestHTTP2Uploads(t *testing.T) { inLanes(t, uploads) }

func uploads(t *testing.T, l lane) {
	t.Helper()
	whole := pattern(3 << 20)
	g := l.frugal(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(body, whole) {
			t.Errorf("the backend gets %d bytes, %v; want %d", len(body), err, len(whole))
		}
		w.WriteHeader(http.StatusCreated)
	}), limiter.Policy{}, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	c.Begin(1, "POST", "/", "content-length: 3145728")
	c.Begin(3, "POST", "/")
	for at := 0; at < len(whole); at += 1 << 18 {
		for id := uint32(1); id < 4; id += 2 {
			if !c.Send(id, at+1<<18 == len(whole), whole[at:at+1<<18]) {
				t.Fatalf("stream %d ended early: %+v", id, c.Of(id))
			}
		}
	}
	for id := uint32(1); id < 4; id += 2 {
		if got := c.Answer(id); got.Status != "201" {
			t.Errorf("stream %d: %+v, want 201", id, got)
		}
	}
}

// What pads a body counts for windows as the body does, and comes back as it does.
func TestHTTP2Padding(t *testing.T) {
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n != 20_000 {
			t.Errorf("the backend gets %d bytes, %v; want 20,000", n, err)
		}
		w.WriteHeader(http.StatusCreated)
	}), limiter.Policy{}, httpgate.Options{})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	for id := uint32(1); id < 4; id += 2 {
		c.Begin(id, "POST", "/")
		for range 20_000 { // with 5 MB of padding
			c.Await("a window", func() bool { return min(c.Credit(), c.CreditOf(id)) >= 257 })
			_ = c.Padded(id, false, []byte("x"), make([]byte, 255))
		}
		_ = c.Data(id, true, nil)
		if got := c.Answer(id); got.Status != "201" {
			t.Fatalf("%+v, want 201", got)
		}
	}
}

// A client that reads in small pieces, and gives each back at once, gets a long answer
// like any other.
func TestHTTP2SmallReads(t *testing.T) {
	const size = 48 << 20
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for range size >> 20 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}), limiter.Policy{}, httpgate.Options{})
	resp, err := newClient(t, "2").Get(g.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 4<<10))
	if n != size || err != nil {
		t.Errorf("%d bytes came, %v; want %d", n, err, size)
	}
}

// The body of a request that nobody takes yet is held back: a client may send what the
// windows are, and no more comes from the gate for it. Requests beside it go on.
func TestHTTP2BodyOfWhoWaits(t *testing.T) {
	p := one()
	p.Default.QueueDepth, p.Default.MaxWait = 5, time.Minute
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}), p, httpgate.Options{})
	permit, err := g.gate.TryAdmit(g.gate.Now(), limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	c.Sync() // its settings are here
	c.Begin(1, "POST", "/")
	if !until(func() bool { return g.gate.Status().Queued == 1 }) {
		t.Fatal("the request does not wait")
	}
	sent := int64(0)
	for n := c.Fill(1); n > 0; n = c.Fill(1) {
		sent += n
		c.Sync() // a window that comes for this is here before it
	}
	const most = 4 << 20
	if sent == 0 || sent > most {
		t.Errorf("a client that waits could send %d bytes, want some and at most %d", sent, most)
	}
	permit.End(limiter.Ignored)
	_ = c.Data(1, true, nil)
	if got := c.Answer(1); int64(len(got.Body)) != sent || !got.Ended {
		t.Errorf("%d bytes came back, want %d", len(got.Body), sent)
	}
}

// What comes for a request that has its answer, or was reset, is thrown away, and its
// part of the connection's window comes back: an upload goes on beside it.
func TestHTTP2BodyThatNobodyWants(t *testing.T) { inLanes(t, bodyThatNobodyWants) }

func bodyThatNobodyWants(t *testing.T, l lane) {
	t.Helper()
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if r.URL.Path == "/all" {
			n, _ := io.Copy(io.Discard, r.Body)
			if n != 500_000 {
				t.Errorf("the backend got %d bytes, want 500,000", n)
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.Copy(io.Discard, br)
	})
	g := l.frugal(t, backend, limiter.Policy{}, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	id := uint32(1)
	for total := int64(0); total < 8<<20; id += 2 { // of windows of 1 MiB and less
		c.Begin(id, "POST", "/early")
		got := c.Head(id)
		if got.Status != "403" {
			t.Fatalf("%+v, want 403", got)
		}
		c.Await("a window of the connection", func() bool { return c.Credit() > 0 })
		total += c.Fill(id)
		if got = c.Answer(id); string(got.Body) != "no" || !got.Ended {
			t.Fatalf("after %d bytes: %+v, want the whole answer", total, got)
		}
		c.Reset(id)
	}
	c.Begin(id, "POST", "/all")
	if !c.Send(id, true, make([]byte, 500_000)) {
		t.Fatalf("%+v, want the upload to be taken", c.Of(id))
	}
	if got := c.Answer(id); got.Status != "403" {
		t.Errorf("%+v, want 403", got)
	}
}
