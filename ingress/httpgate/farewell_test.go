package httpgate_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// What is written right before a connection is closed arrives, and over TLS its
// farewell behind it. TLS sets a deadline in the past once it has said farewell:
// while the socket below held writes back, both were lost.
func TestWhatIsSaidBeforeAClose(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, l lane){
		"a preface that is none": saysBadRequest, "GOAWAY": saysGoAway, "Write, then Close": saysBye,
	} {
		t.Run(name, func(t *testing.T) { inLanes(t, f) })
	}
}

// saysBadRequest: this is not how HTTP/2 begins. The gate refuses one half as a
// request, and net/http the other, and closes.
func saysBadRequest(t *testing.T, l lane) {
	t.Helper()
	g := l.start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{})
	c, br := l.dial(t, g.addr)
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\nHost: a\r\n\r\nSM\r\n\r\n")
	for range 2 {
		if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadRequest {
			t.Fatalf("%+v, %v; want 400", r, err)
		}
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("the connection ended with %v, want its proper end", err)
	}
}

// saysGoAway: a frame that the protocol forbids ends a connection of HTTP/2.
func saysGoAway(t *testing.T, l lane) {
	t.Helper()
	if l.client != nil {
		l.client.NextProtos = []string{"h2"}
	}
	g := l.start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{})
	c, br := l.dial(t, g.addr)
	_, _ = io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, br)
	_ = framer.WriteSettings()
	_ = framer.WriteData(1, true, []byte("of a stream that does not exist"))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%v; want GOAWAY", err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeProtocol {
				t.Errorf("GOAWAY for %v, want PROTOCOL_ERROR", away.ErrCode)
			}
			return
		}
	}
}

// saysBye: by itself, without net/http, which waits before it closes.
func saysBye(t *testing.T, l lane) {
	t.Helper()
	addr := serveSocket(t, func(c net.Conn) {
		if l.server != nil {
			c = tls.Server(c, l.server)
		}
		for range 10 {
			_, _ = io.WriteString(c, "good")
		}
		_, _ = io.WriteString(c, "bye")
		_ = c.Close()
	})
	_, br := l.dial(t, addr)
	if got, err := io.ReadAll(br); err != nil || string(got) != "goodgoodgoodgoodgoodgoodgoodgoodgoodgoodbye" {
		t.Errorf("%q, %v; want all that was written", got, err)
	}
}

// serveSocket serves connections as the gate has them below TLS.
func serveSocket(t *testing.T, h func(net.Conn)) string {
	t.Helper()
	return serveRaw(t, func(c net.Conn, _ *bufio.Reader) { h(httpgate.Socket(c)) })
}
