package httpgate_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// What the client gets of a backend's answers, field by field, all of them on one
// connection. That no answer has a field of a connection, and none that HTTP/2 forbids,
// rawhttp2 sees to.
func TestHTTP2Answer(t *testing.T) { inLanes(t, answers) }

func answers(t *testing.T, l lane) {
	t.Helper()
	const ok = "HTTP/1.1 200 OK\r\n"
	long := strings.Repeat("0123456789", 10_000)
	for _, tc := range []struct {
		name, method, raw string // method "" = GET
		want              rawhttp2.Stream
	}{
		{name: "a length", raw: ok + "Content-Type: text/x\r\nContent-Length: 5\r\n\r\nhello", want: rawhttp2.Stream{Fields: []string{"content-length: 5", "content-type: text/x"}, Body: []byte("hello")}},
		{name: "no type is guessed", raw: ok + "Content-Length: 6\r\n\r\n<html>", want: rawhttp2.Stream{Fields: []string{"content-length: 6"}, Body: []byte("<html>")}},
		{name: "nothing", raw: ok + "Content-Length: 0\r\n\r\n", want: rawhttp2.Stream{Fields: []string{"content-length: 0"}}},
		{name: "chunks", raw: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", want: rawhttp2.Stream{Body: []byte("abcde")}},
		{name: "until the end", raw: ok + "Connection: close\r\n\r\nall of it", want: rawhttp2.Stream{Body: []byte("all of it")}},
		{name: "long", raw: ok + "Content-Length: 100000\r\n\r\n" + long, want: rawhttp2.Stream{Fields: []string{"content-length: 100000"}, Body: []byte(long)}},
		{name: "204", raw: "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", want: rawhttp2.Stream{Status: "204", Fields: []string{"x-a: b"}}},
		{name: "304", raw: "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n", want: rawhttp2.Stream{Status: "304", Fields: []string{`etag: "x"`}}},
		{name: "HEAD", method: "HEAD", raw: ok + "Content-Length: 5000\r\nContent-Type: a/b\r\n\r\n", want: rawhttp2.Stream{Fields: []string{"content-length: 5000", "content-type: a/b"}}},
		{name: "HEAD of unknown length", method: "HEAD", raw: ok + "Transfer-Encoding: chunked\r\n\r\n", want: rawhttp2.Stream{}},
		{name: "an error with a body", raw: "HTTP/1.1 503 Oh\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno", want: rawhttp2.Stream{Status: "503", Fields: []string{"content-length: 2", "retry-after: 3"}, Body: []byte("no")}},
		{name: "a status of its own", raw: "HTTP/1.1 499 What\r\nContent-Length: 0\r\n\r\n", want: rawhttp2.Stream{Status: "499", Fields: []string{"content-length: 0"}}},
		{
			name: "103 and 103", raw: "HTTP/1.1 103 Early Hints\r\nLink: a\r\nLink: b\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: c\r\n\r\n" + ok + "X-A: b\r\nContent-Length: 0\r\n\r\n",
			want: rawhttp2.Stream{Interim: []string{"103 link: a link: b", "103 link: c"}, Fields: []string{"content-length: 0", "x-a: b"}},
		},
		{name: "100 unasked", raw: "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", want: rawhttp2.Stream{Fields: []string{"content-length: 0"}}},
		{
			name: "names and values", raw: ok + "Set-Cookie: a=1; Path=/\r\nX-MIXED-case: v\r\nSET-COOKIE: b=2\r\nX-Empty:\r\nX-Pad:  \t p \r\nX-Obs: \xe9\tz\r\nContent-Length: 0\r\n\r\n",
			want: rawhttp2.Stream{Fields: []string{"content-length: 0", "set-cookie: a=1; Path=/", "set-cookie: b=2", "x-empty: ", "x-mixed-case: v", "x-obs: \xe9\tz", "x-pad: p"}},
		},
		{
			name: "what is the connection's", raw: ok + "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		},
		{
			name: "trailers", raw: ok + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 1\r\nX-Late: 2\r\nConnection: close\r\nContent-Length: 9\r\n\r\n",
			want: rawhttp2.Stream{Fields: []string{"trailer: X-Sum"}, Body: []byte("ab"), Trailer: []string{"x-late: 2", "x-sum: 1"}},
		},
		{name: "its own date", raw: ok + "Date: Tue, 01 Jan 2019 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n", want: rawhttp2.Stream{Fields: []string{"content-length: 0", "date: Tue, 01 Jan 2019 00:00:00 GMT"}}},
		{name: "an encoding", raw: ok + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nnot", want: rawhttp2.Stream{Fields: []string{"content-encoding: gzip", "content-length: 3"}, Body: []byte("not")}},
		{name: "no HTTP", raw: ok + "X Y: z\r\nContent-Length: 0\r\n\r\n", want: rawhttp2.Stream{Status: "502"}},
		{name: "a bare return in a value", raw: ok + "X-A: b\rSet-Cookie: c\r\nContent-Length: 0\r\n\r\n", want: rawhttp2.Stream{Status: "502"}},
		{name: "a null in a value", raw: ok + "X-A: b\x00c\r\nContent-Length: 0\r\n\r\n", want: rawhttp2.Stream{Status: "502"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := l.frugal(t, serveRaw(t, func(c net.Conn, br *bufio.Reader) {
				if _, err := readRequestHead(br); err == nil {
					_, _ = io.WriteString(c, tc.raw)
				}
			}), limiter.Policy{}, httpgate.Options{})
			c := l.speak(t, g.addr, rawhttp2.Options{})
			if tc.method == "" {
				tc.method = http.MethodGet
			}
			c.Ask(1, tc.method, "/")
			got := c.Answer(1)
			if tc.want.Status == "" {
				tc.want.Status = "200"
			}
			compare(t, got, tc.want)
		})
	}
}

// compare compares an answer less what the gate adds: one date, a length that is
// true, and the text of its own problems.
func compare(t *testing.T, got, want rawhttp2.Stream) {
	t.Helper()
	if _, err := time.Parse(http.TimeFormat, got.Field("date")); err != nil {
		t.Errorf("date %q, want one", got.Field("date"))
	}
	if !slices.ContainsFunc(want.Fields, func(f string) bool { return strings.HasPrefix(f, "date: ") }) {
		got.Fields = slices.DeleteFunc(got.Fields, func(f string) bool { return strings.HasPrefix(f, "date: ") })
	}
	if length := fmt.Sprintf("content-length: %d", len(got.Body)); !slices.Contains(want.Fields, length) {
		got.Fields = slices.DeleteFunc(got.Fields, func(f string) bool { return f == length })
	}
	if want.Status == "502" && strings.Contains(string(got.Body), `"status":502`) {
		got.Fields, got.Body = nil, nil
	}
	slices.Sort(got.Fields)
	slices.Sort(got.Trailer)
	if got.Status != want.Status || fmt.Sprintf("%q", got.Fields) != fmt.Sprintf("%q", want.Fields) || fmt.Sprint(got.Interim) != fmt.Sprint(want.Interim) {
		t.Errorf("head %s %q after %q, want %s %q after %q", got.Status, got.Fields, got.Interim, want.Status, want.Fields, want.Interim)
	}
	if string(got.Body) != string(want.Body) || fmt.Sprint(got.Trailer) != fmt.Sprint(want.Trailer) {
		t.Errorf("body %.50q of %d bytes and trailers %q, want %.50q of %d and %q", got.Body, len(got.Body), got.Trailer, want.Body, len(want.Body), want.Trailer)
	}
	if !got.Ended || got.Reset != nil {
		t.Errorf("the stream has ended %v, reset %v, want its proper end", got.Ended, got.Reset)
	}
}

// An answer that is cut short is reset, and no client takes it for whole.
func TestHTTP2AnswerCutShort(t *testing.T) {
	for name, raw := range map[string]string{
		"a length":     "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"chunks":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"a bad chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
		"bad trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: a\rb\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := lane{}.frugal(t, serveRaw(t, func(c net.Conn, br *bufio.Reader) {
				if _, err := readRequestHead(br); err == nil {
					_, _ = io.WriteString(c, raw)
				}
			}), limiter.Policy{}, httpgate.Options{})
			c := lane{}.speak(t, g.addr, rawhttp2.Options{})
			for id := uint32(1); id < 6; id += 2 {
				c.Ask(id, "GET", "/")
				if got := c.Answer(id); got.Ended || got.Reset == nil || got.Status != "" && got.Status != "200" {
					t.Errorf("answer %+v, want the stream reset", got)
				}
			}
		})
	}
}

// A head, and what the backend has sent of a body, arrives while the backend pauses.
func TestHTTP2Pauses(t *testing.T) { inLanes(t, pauses) }

func pauses(t *testing.T, l lane) {
	t.Helper()
	for _, kind := range []string{"text/plain", "text/event-stream"} {
		next := make(chan string)
		g := l.frugal(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			rc := http.NewResponseController(w)
			_ = rc.Flush()
			for piece := range next {
				_, _ = io.WriteString(w, piece)
				_ = rc.Flush()
			}
		}), limiter.Policy{}, httpgate.Options{})
		c := l.speak(t, g.addr, rawhttp2.Options{})
		c.Ask(1, "GET", "/")
		if got := c.Head(1); got.Status != "200" || got.Ended || len(got.Body) > 0 {
			t.Fatalf("%s: %+v, want a head alone", kind, got)
		}
		for want := ""; len(want) < 30; {
			next <- "data: x\n\n"
			want += "data: x\n\n"
			if got := c.Body(1, len(want)); string(got.Body) != want || got.Ended {
				t.Fatalf("%s: %+v, want %q", kind, got, want)
			}
		}
		close(next)
		if got := c.Answer(1); !got.Ended || got.Reset != nil {
			t.Errorf("%s: %+v, want its proper end", kind, got)
		}
	}
}

// Event streams may be silent for longer than anything else may take.
func TestHTTP2SilentStream(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	g := start(t, serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, <-next)
	}), limiter.Policy{}, httpgate.Options{
		RequestTimeout: 1000 * time.Millisecond, StreamIdle: 100 * time.Millisecond, BodyGrace: 50 * time.Millisecond, IdleTimeout: 100 * time.Millisecond,
	})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	c.Ask(1, "GET", "/")
	if got := c.Head(1); got.Status != "200" {
		t.Fatalf("%+v, want 200", got)
	}
	time.Sleep(1500 * time.Millisecond) // the sum of all bounds is 1.35 s
	next <- "data: late\n\n"
	if got := c.Answer(1); string(got.Body) != "data: late\n\n" || !got.Ended {
		t.Errorf("%+v, want the event", got)
	}
}
