package roundtrip_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// words are a gate that has little to say: 503 is an overload.
type words struct{ mute bool }

// AppendHead implements [roundtrip.Gate].
func (g words) AppendHead(b []byte, r *http.Request, _ string) []byte {
	if g.mute {
		panic("no words")
	}
	return append(b, r.Method+" / HTTP/1.1\r\nHost: backend\r\n\r\n"...)
}

// WithholdsTrailer implements [roundtrip.Gate].
func (words) WithholdsTrailer(string) bool { return false }

// Judge implements [roundtrip.Gate].
func (words) Judge(status int) limiter.Outcome {
	if status == http.StatusServiceUnavailable {
		return limiter.Dropped
	}
	return limiter.Success
}

// Problem implements [roundtrip.Gate].
func (words) Problem(w http.ResponseWriter, _ *http.Request, status int, _ string) (cut bool) {
	w.WriteHeader(status)
	return false
}

// speaker is the address of a backend that says the same to everybody, and hangs up.
func speaker(t *testing.T, says string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, says)
			}
			_ = c.Close()
		}
	}()
	return ln.Addr().String()
}

// route is where a request goes to a backend, and the gate that a permit is of.
func route(t *testing.T, says roundtrip.Gate, backend string) (*roundtrip.Route, *limiter.Gate) {
	t.Helper()
	pool, err := upstream.New(upstream.Options{Backend: "http://" + backend, ConnectTimeout: time.Minute, MaxIdle: 1, IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.CloseIdle)
	gate := limiter.New("orders", &limiter.Policy{}, limiter.Options{})
	return &roundtrip.Route{
		Options: roundtrip.Options{RequestTimeout: time.Minute, StreamIdle: time.Minute, BodyGrace: time.Minute, MinBodyRate: -1, MaxHeader: 1 << 10},
		Gate:    says, Clock: gate, Pool: pool, Backend: ingress.NewHealth(backend).Of(backend),
		Retries: new(atomic.Uint64), Tunnels: ingress.NewUnansweredConns(), Abandoned: ingress.NewUnansweredConns(),
	}, gate
}

// admitted is a request with a permit of the gate.
func admitted(t *testing.T, gate *limiter.Gate, w http.ResponseWriter) *roundtrip.Admitted {
	t.Helper()
	permit, _, err := gate.Offer(gate.Now(), limiter.Request{Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &roundtrip.Admitted{W: w, R: httptest.NewRequest(http.MethodGet, "/", http.NoBody), Ctx: t.Context(), Permit: permit}
}

// Whatever the backend says, the caller is answered or cut off, the outcome is what
// that says of the load, and the permit has ended.
func TestServe(t *testing.T) {
	for name, c := range map[string]struct {
		says    string
		status  int
		body    string
		outcome limiter.Outcome
		cut     bool
	}{
		"an answer":                 {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", 200, "good", limiter.Success, false},
		"one to its end":            {"HTTP/1.1 200 OK\r\n\r\ngood", 200, "good", limiter.Success, false},
		"one behind an interim":     {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, "", limiter.Success, false},
		"an overload":               {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 503, "", limiter.Dropped, false},
		"half an answer":            {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 200, "half", limiter.Dropped, true},
		"nothing":                   {"", 502, "", limiter.Dropped, false},
		"what is not HTTP":          {"SSH-2.0-server\r\n\r\n", 502, "", limiter.Ignored, false},
		"what is HTTP/2":            {"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", 502, "", limiter.Ignored, false},
		"a bad first chunk":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", 502, "", limiter.Ignored, false},
		"a bare LF behind its size": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n", 502, "", limiter.Ignored, false},
		"a bad second chunk":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", 200, "abc", limiter.Ignored, true},
		"a head above the bound":    {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<10), 502, "", limiter.Ignored, false},
		"a switch of no protocol":   {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502, "", limiter.Ignored, false},
	} {
		t.Run(name, func(t *testing.T) {
			rt, gate := route(t, words{}, speaker(t, c.says))
			w := httptest.NewRecorder()
			res := rt.Serve(admitted(t, gate, w))
			if res.Status != c.status || res.Outcome != c.outcome || res.Cut != c.cut {
				t.Errorf("Serve() = %+v; want status %d, outcome %v, cut %v", res, c.status, c.outcome, c.cut)
			}
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("the caller got %d %q; want %d %q", w.Code, w.Body, c.status, c.body)
			}
			if n := gate.Status().InFlight; n != 0 {
				t.Errorf("%d permits are held afterwards", n)
			}
		})
	}
}

// A gate that panics over a request costs no permit.
func TestAPanicEndsThePermit(t *testing.T) {
	rt, gate := route(t, words{mute: true}, speaker(t, ""))
	defer func() {
		if p := recover(); p != "no words" {
			t.Errorf("recovered %v", p)
		}
		if n := gate.Status().InFlight; n != 0 {
			t.Errorf("%d permits are held after the panic", n)
		}
	}()
	rt.Serve(admitted(t, gate, httptest.NewRecorder()))
}

// What the gate itself lacks is not laid to the backend's load.
func TestBlame(t *testing.T) {
	rt, _ := route(t, words{}, speaker(t, ""))
	for err, want := range map[error]limiter.Outcome{io.EOF: limiter.Dropped, syscall.EMFILE: limiter.Ignored} {
		if got := roundtrip.Blame(rt, ingress.Unreachable, err); got != want {
			t.Errorf("blame(%v) = %v; want %v", err, got, want)
		}
	}
}
