package httpgate_test

import (
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// What is written right before a connection is closed arrives, and over TLS its
// farewell behind it. TLS sets a deadline in the past once it has said farewell:
// while the socket below held writes back, both were lost; see the fast path's tests
// for the socket alone.
func TestWhatIsSaidBeforeAClose(t *testing.T) {
	for name, f := range map[string]func(t *testing.T, l lane){"a preface that is none": saysBadRequest, "GOAWAY": saysGoAway} {
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
