package httpgate_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// A refused HTTP/2 request with a body got its refusal and then a reset of the
// stream, which curl 7.88 tells as "Stream error in the HTTP/2 framing layer" in
// the place of the refusal. A small body is read away instead.
func TestRefusalAndBodyOverHTTP2(t *testing.T) {
	g := start(t, "127.0.0.1:1", full(), httpgate.Options{})
	permit, err := g.gate.TryAdmit(0, limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer permit.End(limiter.Ignored)
	c, br := dial(t, g.addr)
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, br)
	_ = framer.WriteSettings()
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", http.MethodPost}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}, {"content-length", "5"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	for sent := false; ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			t.Fatalf("the stream is reset: %v", f.ErrCode)
		case *http2.DataFrame:
			if f.StreamEnded() && sent {
				return
			}
			if !sent { // the refusal is here before the body was sent
				sent = true
				_ = framer.WriteData(1, true, []byte("hello"))
			}
			if f.StreamEnded() {
				t.Fatal("the answer ended before the body was read")
			}
		}
	}
}
