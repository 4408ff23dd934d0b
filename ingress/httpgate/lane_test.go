package httpgate_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// lane is a way by which clients come to the doorstep: plainly, or over TLS.
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
// HTTP/2 in the handshake still gets it there, and others the doorstep, of which
// the time of the wait for the next request tells: net/http begins it with the
// answer's end.
func TestDoorstepOverTLS(t *testing.T) {
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

// A client that does not speak TLS is told so, as net/http does.
func TestNoTLS(t *testing.T) {
	var l lane
	l.server, _ = keypair.Ends(t, "gate")
	g := l.start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, bare)
	if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadRequest || !strings.Contains(r.body, "HTTPS") {
		t.Errorf("%+v, %v; want 400 about HTTPS", r, err)
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

// A drain hangs up on who still shakes hands, and does not wait for that.
func TestDrainDuringHandshake(t *testing.T) {
	var l lane
	l.server, _ = keypair.Ends(t, "gate")
	g := l.start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{HeaderTimeout: time.Hour})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "\x16\x03\x01") // the beginning of a record
	for g.Status().Connections.Open == 0 {
		time.Sleep(time.Millisecond) // real sockets: nothing tells when it came in
	}
	if err := g.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("the connection is open after the drain")
	}
}
