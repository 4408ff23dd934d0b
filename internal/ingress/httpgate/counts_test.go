package httpgate_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// A backend that answered 500 to everything was in no metric, and neither was what the
// gate itself answers: 413, 431 and 400.
func TestWhatIsAnsweredIsCounted(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.WriteHeader(max(status, 200))
	})
	const get = "GET /?status=%s HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, tc := range map[string]struct {
		raw       string // over HTTP/1.1
		second    func(c *rawhttp2.Conn)
		responses map[ingress.Response]uint64
		invalid   int
	}{
		"200": {raw: strings.ReplaceAll(get, "%s", "200"), responses: map[ingress.Response]uint64{ingress.Response2xx: 1}},
		"304": {raw: strings.ReplaceAll(get, "%s", "304"), responses: map[ingress.Response]uint64{ingress.Response3xx: 1}},
		"404": {raw: strings.ReplaceAll(get, "%s", "404"), responses: map[ingress.Response]uint64{ingress.Response4xx: 1}},
		"500": {raw: strings.ReplaceAll(get, "%s", "500"), responses: map[ingress.Response]uint64{ingress.Response5xx: 1}},
		"503 over HTTP/2": {
			second:    func(c *rawhttp2.Conn) { c.Ask(1, "GET", "/?status=503"); c.Answer(1) },
			responses: map[ingress.Response]uint64{ingress.Response5xx: 1},
		},
		"a length above the bound": {raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n", invalid: 413},
		"a body above the bound":   {raw: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + strings.Repeat("x", 2048) + "\r\n0\r\n\r\n", invalid: 413},
		"a head above the bound":   {raw: "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", invalid: 431},
		"no request":               {raw: "GET / HTTP/1.1\r\nno header\r\n\r\n", invalid: 400},
		"two keys":                 {raw: "GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: a\r\nX-Tenant: b\r\n\r\n", invalid: 400},
		"CONNECT":                  {raw: "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", invalid: 501},
		"fields above the bound over HTTP/2": {
			second:  func(c *rawhttp2.Conn) { c.Ask(1, "GET", "/", "x: "+strings.Repeat("x", 6<<10)); c.Answer(1) },
			invalid: 431,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts := &ingress.Counts{}
			g := start(t, backend, limiter.Policy{}, httpgate.Options{
				By: []string{"header:X-Tenant"}, MaxBody: 1000, MaxHeader: 4 << 10, Ingress: ingress.Options{Counts: counts},
			})
			if tc.second != nil {
				tc.second(lane{}.speak(t, g.addr, rawhttp2.Options{}))
			} else {
				c, err := net.Dial("tcp", g.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, _ = io.WriteString(c, tc.raw)
				if n, _ := c.Read(make([]byte, 4<<10)); n == 0 {
					t.Error("nothing was answered")
				}
			}
			if tc.responses == nil {
				tc.responses = map[ingress.Response]uint64{}
			}
			if d := cmp.Diff(tc.responses, counts.Responses()); d != "" && tc.invalid != 413 { // a body that is too large may be answered in passing
				t.Errorf("responses (-want +got):\n%s", d)
			}
			var want []ingress.InvalidCount
			if tc.invalid > 0 {
				want = []ingress.InvalidCount{{Status: tc.invalid, Count: 1}}
			}
			if d := cmp.Diff(want, g.Status().Connections.Invalid); d != "" {
				t.Errorf("invalid (-want +got):\n%s", d)
			}
		})
	}
}

// A client that left before the answer counted as a request that is not valid, too: net/http
// took the end of its connection for one, and answered 400 to nobody.
func TestWhoLeavesSentNothingInvalid(t *testing.T) {
	answer := make(chan struct{})
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) { <-answer })
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if !until(func() bool { return g.gate.Status().InFlight == 1 }) {
		t.Fatal("the request did not arrive")
	}
	_ = c.Close()
	if !until(func() bool { return g.gate.Status().Labels[0].Counts.Abandoned == 1 }) {
		t.Error("the client was not seen to leave")
	}
	close(answer)
	if !until(func() bool { return g.Status().Connections.Open == 0 }) {
		t.Error("its connection is still open")
	}
	if d := cmp.Diff([]ingress.InvalidCount(nil), g.Status().Connections.Invalid); d != "" {
		t.Errorf("invalid (-want +got):\n%s", d)
	}
}
