package httpgate_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// ten admits ten requests at a time.
func ten() limiter.Policy {
	return limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(10) }}}
}

// many is how often a flood repeats itself.
func many(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// at counts who is there, and the most there ever were.
type at struct{ now, most atomic.Int32 }

func (a *at) come() {
	for n := a.now.Add(1); ; {
		most := a.most.Load()
		if n <= most || a.most.CompareAndSwap(most, n) {
			return
		}
	}
}

// Requests that are reset as they are sent cost the backend no more than the limit
// lets through, and other clients nothing.
func TestHTTP2RapidReset(t *testing.T) {
	var backend at
	g := lane{}.frugal(t, serveHTTP(t, func(http.ResponseWriter, *http.Request) {
		backend.come()
		defer backend.now.Add(-1)
		runtime.Gosched()
	}), ten(), httpgate.Options{})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	_ = c.Burst(func() { // the gate may have had enough
		for i := range uint32(many(100_000)) {
			c.Ask(2*i+1, "GET", "/")
			c.Reset(2*i + 1)
		}
	})
	g.serves(t, lane{})
	_ = c.Close()
	if !until(func() bool { return g.gate.Status().InFlight == 0 }) {
		t.Errorf("%d permits are held", g.gate.Status().InFlight)
	}
	if most := backend.most.Load(); most > 10 {
		t.Errorf("%d requests at the backend at once, want at most 10", most)
	}
}

// Floods of what costs a client nothing leave others alone, and end with the client's
// connection at the latest.
func TestHTTP2Floods(t *testing.T) {
	settings := func(f *http2.Framer) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	}
	ping := func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }
	for name, tc := range map[string]struct {
		begin func(c *rawhttp2.Conn)
		frame func(f *http2.Framer) error
		deaf  bool
	}{
		"SETTINGS":          {frame: settings},
		"PING":              {frame: ping},
		"PING, not reading": {frame: ping, deaf: true},
		"empty DATA":        {begin: func(c *rawhttp2.Conn) { c.Begin(1, "POST", "/") }, frame: func(f *http2.Framer) error { return f.WriteData(1, false, nil) }},
		"PRIORITY":          {frame: func(f *http2.Framer) error { return f.WritePriority(9, http2.PriorityParam{StreamDep: 3}) }},
		"WINDOW_UPDATE":     {begin: func(c *rawhttp2.Conn) { c.Begin(1, "POST", "/") }, frame: func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) }},
		"RST_STREAM":        {begin: func(c *rawhttp2.Conn) { c.Begin(1, "POST", "/") }, frame: func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeCancel) }},
		"what nobody knows": {frame: func(f *http2.Framer) error { return f.WriteRawFrame(0xfa, 0, 0, nil) }},
		"CONTINUATION": {begin: openBlock, frame: func(f *http2.Framer) error {
			return f.WriteContinuation(1, false, field("x", strings.Repeat("y", 1000)))
		}},
		"empty CONTINUATION": {begin: openBlock, frame: func(f *http2.Framer) error { return f.WriteContinuation(1, false, nil) }},
		"malformed requests": {frame: numbered(func(f *http2.Framer, id uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}, EndHeaders: true, EndStream: true})
		})},
		"requests, not reading": {frame: numbered(wellFormed), deaf: true},
		"uploads that are reset": {frame: numbered(func(f *http2.Framer, id uint32) error {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: plainBlock, EndHeaders: true})
			_ = f.WriteData(id, false, []byte("x"))
			return f.WriteRSTStream(id, http2.ErrCodeCancel)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			g := lane{}.frugal(t, serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), ten(), httpgate.Options{StreamIdle: 300 * time.Millisecond})
			c := lane{}.speak(t, g.addr, rawhttp2.Options{Deaf: tc.deaf})
			if tc.begin != nil {
				tc.begin(c)
			}
			if tc.deaf { // it is written to as long as the gate takes it
				_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			}
			var err error
			for sent := 0; sent < many(100_000) && err == nil; sent += 100 {
				err = c.Burst(func() {
					for range 100 {
						_ = c.Write(tc.frame)
					}
				})
			}
			if tc.deaf {
				_ = c.Close()
			}
			if !until(func() bool { return g.gate.Status().InFlight <= 1 }) {
				t.Errorf("%d permits are held", g.gate.Status().InFlight)
			}
			g.serves(t, lane{})
			_ = c.Close()
			if !until(func() bool { return g.gate.Status().InFlight == 0 }) {
				t.Errorf("%d permits are held", g.gate.Status().InFlight)
			}
		})
	}
}

// openBlock begins a block of fields that goes on.
func openBlock(c *rawhttp2.Conn) {
	_ = c.Write(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndStream: true})
	})
}

// plainBlock is GET /, without a reference to what was sent before.
var plainBlock = []byte{0x82, 0x84, 0x86, 0x01, 0x01, 'a'}

func wellFormed(f *http2.Framer, id uint32) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: plainBlock, EndHeaders: true, EndStream: true})
}

// field encodes a field that is not to be remembered.
func field(name, value string) []byte {
	b := hpack.AppendHuffmanString(nil, "") // none: as it is
	b = append(b, 0, byte(len(name)))
	b = append(b, name...)
	n := len(value) - 127
	b = append(b, 127, byte(n&0x7f)|0x80, byte(n>>7))
	return append(b, value...)
}

// numbered has each frame be of another stream.
func numbered(write func(f *http2.Framer, id uint32) error) func(f *http2.Framer) error {
	id := uint32(1)
	return func(f *http2.Framer) error {
		id += 2
		return write(f, id-2)
	}
}

// Fields that are too many, or grow as they are decoded, are refused: with 431, or the
// end of the stream or the connection.
func TestHTTP2TooManyFields(t *testing.T) {
	var asked atomic.Int32
	g := lane{}.frugal(t, serveHTTP(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }), limiter.Policy{}, httpgate.Options{MaxHeader: 8 << 10})
	big := strings.Repeat("x", 3000)
	for name, more := range map[string][]string{
		"one that is too long":        {"x: " + strings.Repeat("x", 20<<10)},
		"many":                        strings.Split(strings.TrimSuffix(strings.Repeat("x: y|", 5000), "|"), "|"),
		"one, over and over":          strings.Split(strings.TrimSuffix(strings.Repeat("x: "+big+"|", 10_000), "|"), "|"),
		"one that is far too long":    {"x: " + strings.Repeat("x", 4<<20)},
		"cookies in a million pieces": strings.Split(strings.TrimSuffix(strings.Repeat("cookie: a|", 100_000), "|"), "|"),
	} {
		c := lane{}.speak(t, g.addr, rawhttp2.Options{})
		c.Ask(1, "GET", "/", more...)
		if fate := c.Fate(1); fate != "431" && fate != "the end" && !strings.HasPrefix(fate, "RST_STREAM ") && !strings.HasPrefix(fate, "GOAWAY ") {
			t.Errorf("%s: %s", name, fate)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d of them reached the backend", n)
	}
	g.serves(t, lane{})
}

// A client that asks for a lot and reads nothing holds little memory, and its permits
// and its connection for no longer than clients may be silent.
func TestHTTP2ClientThatDoesNotRead(t *testing.T) {
	long := make([]byte, 8<<20)
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(long) }), ten(), httpgate.Options{
		StreamIdle: 300 * time.Millisecond, BodyGrace: 200 * time.Millisecond, CancelAbandoned: true,
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := lane{}.speak(t, g.addr, rawhttp2.Options{Deaf: true, Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}}})
	_ = c.Write(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<30) })
	for id := uint32(1); id < 20; id += 2 {
		c.Ask(id, "GET", "/")
	}
	if !until(func() bool { return g.gate.Status().InFlight == 10 || g.gate.Status().Partitions[0].Counts.Ignored > 0 }) {
		t.Fatal("nothing is asked")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if more := int64(after.HeapAlloc) - int64(before.HeapAlloc); more > 32<<20 {
		t.Errorf("%d bytes of memory for one client, want at most 32 MiB", more)
	}
	if !until(func() bool { return g.gate.Status().InFlight == 0 }) {
		t.Errorf("%d permits are held", g.gate.Status().InFlight)
	}
}

// A client that takes an answer byte by byte is given up after its grace.
func TestHTTP2Drip(t *testing.T) {
	g := lane{}.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 8<<20)) }), one(), httpgate.Options{
		BodyGrace: 100 * time.Millisecond, MinBodyRate: 100 << 20, StreamIdle: time.Hour,
	})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{Stingy: true, Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}})
	c.Ask(1, "GET", "/")
	c.Head(1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for until := time.Now().Add(patience); time.Now().Before(until) && c.Of(1).Reset == nil; time.Sleep(5 * time.Millisecond) {
			c.Grant(1, 1)
		}
	}()
	if e := g.ends.wait(t); e.outcome != limiter.Ignored {
		t.Errorf("outcome %v, want ignored", e.outcome)
	}
	if got := c.Answer(1); got.Reset == nil {
		t.Errorf("%+v, want the stream reset", got)
	}
	<-ended
}

// Who begins a frame, or a connection, and goes silent is hung up on when a client has
// been silent for too long; so is who asks nothing.
func TestHTTP2Silence(t *testing.T) {
	var l lane
	l.server, l.client = keypair.Ends(t, "gate")
	l.server.SessionTicketsDisabled, l.client.NextProtos = true, []string{"h2"}
	for name, said := range map[string]string{
		"half a preface":           http2.ClientPreface[:10],
		"no settings":              http2.ClientPreface,
		"nothing more":             http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"half the head of a frame": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x06",
		"half a frame":             http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x06\x00\x00\x00\x00\x00123",
		"half a block of fields":   http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x01\x00\x00\x00\x01\x82",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := l.over(refusing(t, l, httpgate.Options{IdleTimeout: 80 * time.Second, HeaderTimeout: 10 * time.Second}))
				began := time.Now()
				_, _ = io.WriteString(c, said)
				_, err := io.Copy(io.Discard, c)
				if got := time.Since(began); got > 95*time.Second || got < time.Second {
					t.Errorf("the connection ended after %v (%v), want 1 to 95 s", got, err)
				}
			})
		})
	}
}
