package httpgate_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// What HTTP/2 forbids ends the stream or the connection with a code that says why, and
// is no harm to anybody else: another client is served, and no permit is left.
func TestHTTP2Illegal(t *testing.T) {
	g := lane{}.frugal(t, serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), limiter.Policy{}, httpgate.Options{})
	const protocol, size, flow, closed, compression, goesOn = "PROTOCOL_ERROR", "FRAME_SIZE_ERROR", "FLOW_CONTROL_ERROR", "STREAM_CLOSED", "COMPRESSION_ERROR", ""
	raw := func(kind http2.FrameType, flags http2.Flags, id uint32, payload string) func(*rawhttp2.Conn) {
		return func(c *rawhttp2.Conn) {
			_ = c.Write(func(f *http2.Framer) error { return f.WriteRawFrame(kind, flags, id, []byte(payload)) })
		}
	}
	for name, tc := range map[string]struct {
		do   func(c *rawhttp2.Conn)
		want string // codes of which one is told, for the stream or the connection; "" = it goes on
	}{
		"DATA of an idle stream":          {raw(http2.FrameData, 0, 5, "x"), protocol},
		"DATA of stream 0":                {raw(http2.FrameData, 0, 0, "x"), protocol},
		"DATA of a stream that is closed": {func(c *rawhttp2.Conn) { c.Ask(1, "GET", "/"); c.Answer(1); _ = c.Data(1, true, nil) }, closed},
		"DATA behind the end": {func(c *rawhttp2.Conn) {
			send(c, 1, c.Request("POST", "/"), []string{"a"}, nil)
			_ = c.Data(1, true, []byte("b"))
		}, closed},
		"DATA that is all padding and more": {raw(http2.FrameData, http2.FlagDataPadded, 1, "\x05abc"), protocol},
		"DATA beyond the frame":             {func(c *rawhttp2.Conn) { c.Raw([]byte("\xff\xff\xff\x00\x00\x00\x00\x00\x01")) }, size},
		"HEADERS of an even stream":         {func(c *rawhttp2.Conn) { c.Ask(2, "GET", "/") }, protocol},
		"HEADERS of stream 0":               {raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, "\x82"), protocol},
		"HEADERS that go back":              {func(c *rawhttp2.Conn) { c.Ask(5, "GET", "/"); c.Ask(3, "GET", "/") }, protocol + closed},
		"HEADERS behind the end":            {func(c *rawhttp2.Conn) { c.Ask(1, "GET", "/"); c.Answer(1); c.Ask(1, "GET", "/") }, protocol + closed},
		"HEADERS that depend on themselves": {raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersPriority, 1, "\x00\x00\x00\x01\x00\x82"), protocol},
		"HEADERS that are no HPACK":         {raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), compression},
		"HEADERS that refer to nothing":     {raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xfe"), compression},
		"HEADERS and then something else": {func(c *rawhttp2.Conn) {
			raw(http2.FrameHeaders, 0, 1, "\x82")(c)
			raw(http2.FramePing, 0, 0, "12345678")(c)
		}, protocol},
		"HEADERS and then of another stream": {func(c *rawhttp2.Conn) {
			raw(http2.FrameHeaders, 0, 1, "\x82")(c)
			raw(http2.FrameContinuation, 4, 3, "\x82")(c)
		}, protocol},
		"CONTINUATION of nothing":            {raw(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, "\x82"), protocol},
		"trailers that are not the end":      {func(c *rawhttp2.Conn) { c.Begin(1, "POST", "/"); _ = c.Headers(1, false, rawhttp2.Fields("x: y")) }, protocol},
		"RST_STREAM of an idle stream":       {func(c *rawhttp2.Conn) { c.Reset(7) }, protocol},
		"RST_STREAM of stream 0":             {raw(http2.FrameRSTStream, 0, 0, "1234"), protocol},
		"RST_STREAM too short":               {raw(http2.FrameRSTStream, 0, 1, "123"), size},
		"WINDOW_UPDATE of an idle stream":    {func(c *rawhttp2.Conn) { c.Grant(7, 1) }, protocol},
		"WINDOW_UPDATE of nothing":           {func(c *rawhttp2.Conn) { c.Grant(0, 0) }, protocol},
		"WINDOW_UPDATE beyond all bounds":    {func(c *rawhttp2.Conn) { c.Grant(0, 1<<31-1); c.Grant(0, 1<<31-1) }, flow},
		"WINDOW_UPDATE of a stream, nothing": {func(c *rawhttp2.Conn) { c.Begin(1, "POST", "/"); c.Grant(1, 0) }, protocol},
		"WINDOW_UPDATE of a stream, all":     {func(c *rawhttp2.Conn) { c.Begin(1, "POST", "/"); c.Grant(1, 1<<31-1); c.Grant(1, 1<<31-1) }, flow},
		"WINDOW_UPDATE too long":             {raw(http2.FrameWindowUpdate, 0, 0, "12345"), size},
		"SETTINGS of a stream":               {raw(http2.FrameSettings, 0, 1, ""), protocol},
		"SETTINGS of an odd length":          {raw(http2.FrameSettings, 0, 0, "12345"), size},
		"SETTINGS that acknowledge a lot":    {raw(http2.FrameSettings, http2.FlagSettingsAck, 0, "123456"), size},
		"SETTINGS with a push of 2":          {raw(http2.FrameSettings, 0, 0, "\x00\x02\x00\x00\x00\x02"), protocol},
		"SETTINGS with a huge window":        {raw(http2.FrameSettings, 0, 0, "\x00\x04\x80\x00\x00\x00"), flow},
		"SETTINGS with tiny frames":          {raw(http2.FrameSettings, 0, 0, "\x00\x05\x00\x00\x00\x01"), protocol},
		"SETTINGS that nobody knows":         {raw(http2.FrameSettings, 0, 0, "\x7f\x05\x00\x00\x00\x01"), goesOn},
		"PING of a stream":                   {raw(http2.FramePing, 0, 1, "12345678"), protocol},
		"PING too short":                     {raw(http2.FramePing, 0, 0, "1234567"), size},
		"PING nobody asked for":              {raw(http2.FramePing, http2.FlagPingAck, 0, "12345678"), goesOn},
		"PUSH_PROMISE":                       {raw(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, "\x00\x00\x00\x02\x82"), protocol},
		"PRIORITY of stream 0":               {raw(http2.FramePriority, 0, 0, "\x00\x00\x00\x01\x00"), protocol},
		"PRIORITY of an idle stream":         {raw(http2.FramePriority, 0, 9, "\x00\x00\x00\x01\x00"), goesOn},
		"GOAWAY of a stream":                 {raw(http2.FrameGoAway, 0, 1, "\x00\x00\x00\x00\x00\x00\x00\x00"), protocol},
		"a frame that nobody knows":          {raw(0x7f, 0xff, 3, strings.Repeat("x", 1000)), goesOn},
	} {
		t.Run(name, func(t *testing.T) {
			c := lane{}.speak(t, g.addr, rawhttp2.Options{})
			c.Sync()
			tc.do(c)
			if tc.want == goesOn {
				c.Ask(11, "GET", "/")
				if got := c.Answer(11); got.Status != "200" {
					t.Errorf("%+v, want 200", got)
				}
				return
			}
			if code := c.Code(); !strings.Contains(tc.want, code) || code == "" {
				t.Errorf("ended with %q, want %s", code, tc.want)
			}
		})
	}
	g.serves(t, lane{})
	if !until(func() bool { return g.gate.Status().InFlight == 0 }) {
		t.Errorf("%d permits are held", g.gate.Status().InFlight)
	}
}

// A client that begins otherwise than HTTP/2 does is hung up on.
func TestHTTP2BadBeginnings(t *testing.T) { inLanes(t, badBeginnings) }

func badBeginnings(t *testing.T, l lane) {
	t.Helper()
	g := l.frugal(t, serveHTTP(t, func(http.ResponseWriter, *http.Request) {}), limiter.Policy{}, httpgate.Options{})
	begun := map[string]net.Conn{}
	for name, said := range map[string]string{
		"a request before settings": http2.ClientPreface + "\x00\x00\x04\x01\x05\x00\x00\x00\x01\x82\x84\x86\x41",
		"a ping before settings":    http2.ClientPreface + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
		"another preface":           "PRI * HTTP/2.0\r\n\r\nnone\r\n\r\n",
		"garbage behind it":         http2.ClientPreface + strings.Repeat("garbage ", 100),
	} {
		c := l.agree(t, g.addr)
		_, _ = io.WriteString(c, said)
		begun[name] = c
	}
	for name, c := range begun {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection goes on", name)
		}
	}
	g.serves(t, l)
}

// A client that says farewell gets what it has asked for.
func TestHTTP2LastRefusalsOfTheClient(t *testing.T) { inLanes(t, lastRefusalsOfTheClient) }

func lastRefusalsOfTheClient(t *testing.T, l lane) {
	t.Helper()
	release := make(chan struct{})
	g := l.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = w.Write(pattern(200_000))
	}), limiter.Policy{}, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	c.Ask(1, "GET", "/")
	c.Ask(3, "GET", "/")
	_ = c.Write(func(f *http2.Framer) error { return f.WriteGoAway(0, http2.ErrCodeNo, []byte("good bye")) })
	c.Sync()
	close(release)
	for id := uint32(1); id < 4; id += 2 {
		if got := c.Answer(id); len(got.Body) != 200_000 || !got.Ended {
			t.Errorf("stream %d: %d bytes, ended %v, reset %v; want the whole answer", id, len(got.Body), got.Ended, got.Reset)
		}
	}
}
