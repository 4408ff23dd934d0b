package httpgate_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// lane is a way by which clients come to the fast path: plainly, or over TLS.
type lane struct{ server, client *tls.Config }

// inLanes runs a test once for each lane: what holds in one holds in the other.
func inLanes(t *testing.T, f func(t *testing.T, l lane)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { f(t, lane{}) })
	t.Run("TLS", func(t *testing.T) {
		var l lane
		l.server, l.client = keypair.Ends(t, "gate")
		l.server.SessionTicketsDisabled = true // pipes that nobody reads would hold them
		f(t, l)
	})
}

// start is start for clients of the lane.
func (l lane) start(tb testing.TB, backend string, p limiter.Policy, o httpgate.Options) *gated {
	tb.Helper()
	o.Ingress.TLS = l.server
	return start(tb, backend, p, o)
}

// over returns the client's end of a connection as it speaks through c.
func (l lane) over(c net.Conn) net.Conn {
	if l.client != nil {
		c = tls.Client(c, l.client)
	}
	return c
}

// dial opens a connection to the gate.
func (l lane) dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, _ := dial(t, addr)
	c = l.over(c)
	return c, bufio.NewReader(c)
}

// closeWrite ends the client's half of a connection.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// Requests over TLS once went through net/http one and all. Whoever agrees on
// HTTP/2 in the handshake still gets it there, and others the fast path, of which
// the time of the wait for the next request tells: net/http begins it with the
// answer's end.
func TestFastPathOverTLS(t *testing.T) {
	inLanes(t, func(t *testing.T, l lane) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			c := l.over(refusing(t, l, httpgate.Options{IdleTimeout: 80 * time.Second}))
			br := bufio.NewReader(c)
			for range 2 {
				_, _ = io.WriteString(c, bare)
				if r, err := readReply(br); err != nil || r.StatusCode != http.StatusTooManyRequests {
					t.Fatalf("%+v, %v; want a refusal", r, err)
				}
				time.Sleep(time.Second / 2)
			}
			began := time.Now()
			_, err := br.ReadByte()
			if got, want := time.Since(began), 79*time.Second; err == nil || got != want {
				t.Errorf("the connection ended after %v (%v), want %v", got, err, want)
			}
		})
	})
}

// A client that does not speak TLS is told so, as net/http does. That its handshake
// failed was once counted nowhere.
func TestNoTLS(t *testing.T) {
	var l lane
	l.server, _ = keypair.Ends(t, "gate")
	seen := make(refusals, 1)
	g := l.start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{Ingress: ingress.Options{Observer: seen}})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, bare)
	if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadRequest || !strings.Contains(r.body, "HTTPS") {
		t.Errorf("%+v, %v; want 400 about HTTPS", r, err)
	}
	if why := <-seen; why != ingress.BadHandshake {
		t.Errorf("refused for %v, want tls_handshake", why)
	}
}

// A client that does not shake hands holds its connection for no longer than it may
// take for a head.
func TestHandshakeIsBounded(t *testing.T) {
	var l lane
	l.server, _ = keypair.Ends(t, "gate")
	synctest.Test(t, func(t *testing.T) {
		c := refusing(t, l, httpgate.Options{HeaderTimeout: 3 * time.Second})
		began := time.Now()
		_, err := c.Read(make([]byte, 1))
		if got := time.Since(began); err == nil || got != 3*time.Second {
			t.Errorf("the connection ended after %v (%v), want 3 s", got, err)
		}
	})
}

// A drain waits a second for who still shakes hands, and then hangs up.
func TestDrainDuringHandshake(t *testing.T) {
	var l lane
	l.server, _ = keypair.Ends(t, "gate")
	synctest.Test(t, func(t *testing.T) {
		s, c := refuser(t, l, httpgate.Options{HeaderTimeout: time.Hour})
		_, _ = io.WriteString(c, "\x16\x03\x01") // the beginning of a record
		synctest.Wait()
		began := time.Now()
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if got := time.Since(began); got < time.Second || got > time.Second+2*time.Millisecond { // net/http looks again and again
			t.Errorf("the drain took %v, want a second", got)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is open after the drain")
		}
	})
}

// A reload that replaces the server once hung up on who shook hands; now these
// clients are served, over HTTP/2 too, of which the request may come a while later.
func TestRetireDuringHandshake(t *testing.T) {
	for _, proto := range []string{"http/1.1", "h2"} {
		t.Run(proto, func(t *testing.T) {
			var l lane
			l.server, l.client = keypair.Ends(t, "gate")
			l.server.SessionTicketsDisabled = true
			l.client.NextProtos = []string{proto}
			synctest.Test(t, func(t *testing.T) {
				s, raw := refuser(t, l, httpgate.Options{})
				synctest.Wait() // it is accepted, and its handshake runs
				retired := make(chan error, 1)
				go func() { retired <- s.Retire(context.WithoutCancel(t.Context())) }()
				time.Sleep(time.Second / 4) // nothing is accepted any more
				c, _ := l.over(raw).(*tls.Conn)
				if err := c.Handshake(); err != nil {
					t.Fatal(err)
				}
				if got := c.ConnectionState().NegotiatedProtocol; got != proto {
					t.Fatalf("agreed on %q", got)
				}
				time.Sleep(time.Second / 4)
				if status, err := ask(c); err != nil || status != http.StatusTooManyRequests {
					t.Errorf("answer %d, %v; want a refusal", status, err)
				}
				_ = raw.Close()
				if err := <-retired; err != nil {
					t.Errorf("Retire = %v", err)
				}
			})
		})
	}
}

// ask sends a request over a connection and returns the status of the answer.
func ask(c net.Conn) (int, error) {
	tr := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://gate/", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// A panic in a callback of the TLS configuration once ended the process. It ends
// that connection, is logged and counted, and the next client comes in.
func TestHandshakePanics(t *testing.T) {
	var l lane
	l.server, l.client = keypair.Ends(t, "gate")
	cert := l.server.Certificates[0]
	var asked atomic.Int32
	l.server = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if asked.Add(1) == 1 {
			panic("no certificate today")
		}
		return &cert, nil
	}}
	var logged bytes.Buffer
	seen := make(refusals, 1)
	g := l.start(t, serveHTTP(t, func(http.ResponseWriter, *http.Request) {}), limiter.Policy{}, httpgate.Options{Ingress: ingress.Options{
		Observer: seen, Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError})),
	}})
	c, br := l.dial(t, g.addr)
	if _, err := br.ReadByte(); err == nil {
		t.Error("the connection is open after the panic")
	}
	_ = c.Close()
	if why := <-seen; why != ingress.BadHandshake {
		t.Errorf("refused for %v, want tls_handshake", why)
	}
	if !strings.Contains(logged.String(), "no certificate today") {
		t.Errorf("logged %q, want the panic", logged.String())
	}
	c, _ = l.dial(t, g.addr)
	if status, err := ask(c); err != nil || status != http.StatusOK {
		t.Errorf("answer %d, %v; want 200", status, err)
	}
}

// Many streams of one connection get each its own answer, long and short, with
// TLS and without.
func TestManyStreams(t *testing.T) {
	inLanes(t, func(t *testing.T, l lane) {
		t.Helper()
		backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 1+len(r.URL.Path)*len(r.URL.Path)))
		})
		roomy := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1000) }}}
		g := l.start(t, backend, roomy, httpgate.Options{ConnectTimeout: time.Minute})
		client := newClient(t, "2")
		tr, _ := client.Transport.(*http.Transport)
		tr.Protocols.SetHTTP2(true)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				path := "/" + strings.Repeat("x", i)
				resp, err := client.Get(g.url + path)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if want := strings.Repeat(path, 1+len(path)*len(path)); err != nil || resp.ProtoMajor != 2 || string(body) != want {
					t.Errorf("HTTP/%d, %d bytes, %v; want 2 and %d bytes", resp.ProtoMajor, len(body), err, len(want))
				}
			})
		}
		wg.Wait()
	})
}
