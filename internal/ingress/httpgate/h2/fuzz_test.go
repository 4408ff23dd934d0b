package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// FuzzSession: whatever comes behind the preface, the session ends with its client,
// and so does every request that began.
func FuzzSession(f *testing.F) {
	for _, write := range []func(c *client){
		func(c *client) { _ = c.ask(1, http.MethodGet, "/refused") },
		func(c *client) { _ = c.ask(1, http.MethodPost, "/refused") },
		func(c *client) {
			_ = c.ask(1, http.MethodGet, "/hold")
			_ = c.framer.WriteRSTStream(1, http2.ErrCodeCancel)
		},
		func(c *client) {
			_ = c.ask(1, http.MethodPost, "/echo", "trailer", "x-sum")
			_ = c.framer.WriteData(1, false, []byte("hello"))
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode("x-sum", "1"), EndHeaders: true, EndStream: true})
		},
		func(c *client) {
			_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
			_ = c.ask(1, http.MethodGet, "/bytes-100000")
			_ = c.framer.WriteWindowUpdate(1, 1000)
			_ = c.framer.WriteWindowUpdate(0, 1000)
			_ = c.framer.WritePing(false, [8]byte{1})
			_ = c.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
		},
		func(c *client) {
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(":method", "GET")})
			_ = c.framer.WriteContinuation(1, true, c.encode(":path", "/"))
		},
	} {
		var b bytes.Buffer
		c := &client{framer: http2.NewFramer(&b, nil)}
		c.fresh()
		write(c)
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, true)
			go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
			c.hello()
			c.raw(raw)
			synctest.Wait()
			_ = c.Close()
			<-c.over
			if c.w.begun.Load() != c.w.ended.Load() {
				t.Errorf("%d requests have begun and %d ended", c.w.begun.Load(), c.w.ended.Load())
			}
		})
	})
}
