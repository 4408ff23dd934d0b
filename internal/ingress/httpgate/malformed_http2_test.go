package httpgate_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// A request that is none (RFC 9113, 8.1.1, 8.2, 8.3) reaches neither the backend nor the
// gate's decision. Its stream ends for it, and the connection goes on.
func TestHTTP2Malformed(t *testing.T) { inLanes(t, malformed) }

func malformed(t *testing.T, l lane) {
	t.Helper()
	var asked atomic.Int32
	g := l.frugal(t, serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path != "/well" {
			t.Errorf("the backend gets %s %s %v", r.Method, r.URL, r.Header)
		}
	}), limiter.Policy{}, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	id, well := uint32(1), uint64(0)
	for _, fields := range [][]string{
		{"X-Upper: a"},
		{"x-uppeR: a"},
		{"x y: a"},
		{"x\r\ny: a"},
		{"x\x00: a"},
		{"x\x7f: a"},
		{"x(: a"},
		{"x\xe9: a"},
		{"x: a\r\ny: b"},
		{"x: a\nb"},
		{"x: a\rb"},
		{"x: a\x00b"},
		{"x: a\x7fb"},
		{"cookie: a\r\nx: b"},
		{":status: 200"},
		{":unknown: a"},
		{"x: a", ":late: b"},
		{"connection: close"},
		{"connection: x"},
		{"keep-alive: a"},
		{"proxy-connection: a"},
		{"transfer-encoding: chunked"},
		{"transfer-encoding: identity"},
		{"upgrade: websocket"},
		{"te: gzip"},
		{"te: trailers, gzip"},
		{":method: -"},
		{":method: "},
		{":method: G T"},
		{":method: GET / HTTP/1.1\r\nx: y"},
		{":path: -"},
		{":path: "},
		{":path: a"},
		{":path: a/b"},
		{":path: /a b"},
		{":path: /a\r\nx: y"},
		{":path: /\x00"},
		{":path: /a#b"},
		{":scheme: -"},
		{":authority: a b"},
		{":authority: a\r\nx: y"},
		{":authority: a/b"},
	} {
		c.Ask(id, "GET", "/ill", fields...)
		if fate := c.Fate(id); fate != "400" && !strings.HasPrefix(fate, "RST_STREAM ") {
			t.Fatalf("%q: %s, want 400 or the stream reset", fields, fate)
		}
		id += 2
	}
	twice := func(name string) []rawhttp2.Field {
		head := c.Request("GET", "/ill")
		for _, f := range head {
			if f.Name == name {
				return append(head, f)
			}
		}
		return nil
	}
	for name, head := range map[string][]rawhttp2.Field{
		"two methods":                   twice(":method"),
		"two paths":                     twice(":path"),
		"two schemes":                   twice(":scheme"),
		"two authorities":               twice(":authority"),
		"a pseudo-field behind another": append(append(rawhttp2.Fields("x: y"), c.Request("GET", "/ill")...), rawhttp2.Fields("z: a")...),
		"an empty name":                 append(c.Request("GET", "/ill"), rawhttp2.Field{Value: "a"}),
		"nothing":                       nil,
		"no pseudo-field":               rawhttp2.Fields("x: y"),
		"CONNECT":                       rawhttp2.Fields(":method: CONNECT", ":scheme: http", ":path: /ill", ":authority: a"),
		"an extended CONNECT that nobody offered": rawhttp2.Fields(":method: CONNECT", ":scheme: http", ":path: /ill", ":authority: a", ":protocol: websocket"),
	} {
		_ = c.Headers(id, true, head)
		if fate := c.Fate(id); fate != "400" && !strings.HasPrefix(fate, "RST_STREAM ") {
			t.Fatalf("%s: %s, want 400 or the stream reset", name, fate)
		}
		id += 2
		c.Ask(id, "GET", "/well", "x: y")
		if got := c.Answer(id); got.Status != "200" {
			t.Fatalf("behind %s: %+v, want 200", name, got)
		}
		id, well = id+2, well+1
	}
	if got := g.gate.Status().Partitions[0].Counts; got.Received() != well {
		t.Errorf("the gate decided %+v, want %d admitted", got, well)
	}
	if got := asked.Load(); got != int32(well) {
		t.Errorf("the backend was asked %d times, want %d", got, well)
	}
}

// A body that is not as long as was said never arrives as if it were, and ends the
// stream; neither do trailers that are none.
func TestHTTP2MalformedBody(t *testing.T) { inLanes(t, malformedBody) }

func malformedBody(t *testing.T, l lane) {
	t.Helper()
	g := l.frugal(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && r.URL.Path != "/well" {
			t.Errorf("the backend takes %s for whole, trailers %v", r.URL, r.Trailer)
		}
		w.WriteHeader(http.StatusOK)
	}), limiter.Policy{}, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	id := uint32(1)
	for name, tc := range map[string]struct {
		length  string
		body    []string
		trailer []string
	}{
		"too-little":          {"5", []string{"abc"}, nil},
		"none":                {"5", []string{""}, nil},
		"too-much":            {"5", []string{"abcdefgh"}, nil},
		"too-much-in-pieces":  {"5", []string{"abc", "defgh"}, nil},
		"too-little-of-much":  {"40000", []string{strings.Repeat("x", 30_000)}, nil},
		"too-much-of-much":    {"40000", []string{strings.Repeat("x", 50_000)}, nil},
		"pseudo-trailer":      {"-", []string{"abc"}, []string{":path: /x"}},
		"upper-trailer":       {"-", []string{"abc"}, []string{"X-Upper: a"}},
		"trailer-that-frames": {"-", []string{"abc"}, []string{"x: a\r\n\r\nGET / HTTP/1.1"}},
	} {
		send(c, id, c.Request("POST", "/"+name, "content-length: "+tc.length), tc.body, tc.trailer)
		if fate := c.Fate(id); fate != "400" && !strings.HasPrefix(fate, "RST_STREAM ") {
			t.Fatalf("%s: %s, want 400 or the stream reset", name, fate)
		}
		send(c, id+2, c.Request("POST", "/well", "content-length: 3"), []string{"abc"}, nil)
		if got := c.Answer(id + 2); got.Status != "200" {
			t.Fatalf("behind %s: %+v, want 200", name, got)
		}
		id += 4
	}
	if !until(func() bool { return g.gate.Status().InFlight == 0 }) {
		t.Errorf("%d permits are held", g.gate.Status().InFlight)
	}
}
