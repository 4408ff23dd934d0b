package httpgate_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// lanes are two connections: what is sent over the first is served by net/http,
// since its first request came in two parts, and over the second on the fast path.
func lanes(t *testing.T, l lane, g *gated) (ask [2]func(raw string) (reply, error)) {
	t.Helper()
	for i, cut := range []int{20, 0} {
		c, br := l.dial(t, g.addr)
		ask[i] = func(raw string) (reply, error) {
			for _, part := range []string{raw[:cut], raw[cut:]} {
				if part == "" {
					continue
				}
				_, _ = io.WriteString(c, part)
				time.Sleep(time.Millisecond) // real sockets: two writes are to be two reads
			}
			cut = 0
			r, err := readReply(br)
			if err != nil {
				return reply{}, err
			}
			r.Header.Del("Date")
			return r, nil
		}
	}
	return ask
}

// An answer on the fast path and one behind net/http say the same, refusals too.
func TestFastPathSaysTheSame(t *testing.T) { inLanes(t, fastPathSaysTheSame) }

func fastPathSaysTheSame(t *testing.T, l lane) {
	t.Helper()
	const asked = "GET /a?b HTTP/1.1\r\nHost: a\r\nX-Tenant: acme\r\n\r\n"
	same := func(t *testing.T, g *gated, status int) {
		t.Helper()
		ask := lanes(t, l, g)
		want, err1 := ask[0](asked)
		got, err2 := ask[1](asked)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got.ContentLength < 0 && want.ContentLength > 0 { // net/http counts what is short
			want.ContentLength = -1
			want.Header.Del("Content-Length")
		}
		if want.StatusCode != status || got.Status != want.Status || got.Close != want.Close || got.ContentLength != want.ContentLength {
			t.Errorf("%s, %d bytes, close %v; behind net/http %s, %d bytes, close %v; want %d", got.Status, got.ContentLength, got.Close, want.Status, want.ContentLength, want.Close, status)
		}
		if diff := cmp.Diff([]any{want.Header, want.body, want.Trailer}, []any{got.Header, got.body, got.Trailer}); diff != "" {
			t.Errorf("(-net/http +doorstep):\n%s", diff)
		}
	}
	for _, c := range []struct {
		name, answer string
		status       int
	}{
		{"length", "200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\nContent-Type: text/plain\r\n\r\nhello", 200},
		{"empty", "200 OK\r\nContent-Length: 0\r\n\r\n", 200},
		{"no type", "200 OK\r\nContent-Length: 6\r\n\r\n<html>", 200},
		{"chunks", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 200},
		{"trailer", "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n", 200},
		{"no content", "204 No Content\r\nX-A: 1\r\n\r\n", 204},
		{"not modified", "304 Not Modified\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\n", 304},
		{"not found", "404 Not Found\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nno", 404},
		{"failed", "500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno", 500},
		{"odd status", "299 Fine\r\nContent-Length: 2\r\n\r\nno", 299},
		{"backend closes", "200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n\r\nhello", 200},
		{"long", "200 OK\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200_000), 200},
		{"garbage", "what?\r\n\r\n", 502},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := l.start(t, serveRaw(t, always("HTTP/1.1 "+c.answer)), limiter.Policy{}, httpgate.Options{Via: true})
			same(t, g, c.status)
		})
	}
	t.Run("refused", func(t *testing.T) {
		p := limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001}}
		g := l.start(t, "127.0.0.1:1", p, httpgate.Options{By: []string{"header:x-tenant"}, NoHints: true, Rate: func(string) limiter.Rate { return p.Rate }})
		if r, _ := get(t, g.url+"/"); r.StatusCode != http.StatusBadGateway {
			t.Fatalf("the first is admitted: %s", r.Status)
		}
		same(t, g, http.StatusTooManyRequests)
		if n := g.gate.Status().Bucket; n == nil || n.Tokens >= 1 {
			t.Errorf("bucket %+v, want less than a token", n)
		}
	})
}

// A plain request that is under way when the server drains gets its whole
// answer, told that it is the last on its connection; one that rests is closed.
func TestDrainFinishesPlainRequests(t *testing.T) { inLanes(t, drainFinishesPlainRequests) }

func drainFinishesPlainRequests(t *testing.T, l lane) {
	t.Helper()
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "done")
	})
	g := l.start(t, backend, limiter.Policy{}, httpgate.Options{})
	busy, busyReader := l.dial(t, g.addr)
	idle, idleReader := l.dial(t, g.addr)
	for c, br := range map[net.Conn]*bufio.Reader{busy: busyReader, idle: idleReader} {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, err := readReply(br); err != nil || r.body != "done" {
			t.Fatal(r, err)
		}
	}
	_, _ = io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-arrived
	drained := make(chan error, 1)
	go func() { drained <- g.Drain(t.Context()) }()
	if _, err := idleReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v; want its end", err)
	}
	select {
	case err := <-drained:
		t.Fatalf("the drain was over before the request: %v", err)
	default:
	}
	close(release)
	if r, err := readReply(busyReader); err != nil || r.body != "done" || !r.Close {
		t.Errorf("the request under way: %+v, %v; want its answer, and the connection's end", r, err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// Whatever mix of requests comes over one connection, each gets its own answer,
// in order, and no permit is left behind.
func TestFastPathKeepsOrder(t *testing.T) { inLanes(t, fastPathKeepsOrder) }

func fastPathKeepsOrder(t *testing.T, l lane) {
	t.Helper()
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.RequestURI, body)
	})
	p := limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "none", Match: "none", Rate: limiter.Rate{PerSecond: 0.001}}}}
	g := l.start(t, backend, p, httpgate.Options{By: []string{"header:x-tenant"}})
	request := func(i int) (raw, want string) {
		uri := fmt.Sprintf("/%d", i)
		switch i % 7 {
		case 1, 2, 5: // refused
			return "GET " + uri + " HTTP/1.1\r\nHost: a\r\nX-Tenant: none\r\n\r\n", ""
		case 3:
			return "POST " + uri + " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", uri + " body"
		case 4:
			return "GET " + uri + " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", uri + " body"
		case 6:
			return "GET " + uri + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n", uri + " body"
		default:
			return "GET " + uri + " HTTP/1.1\r\nHost: a\r\n\r\n", uri + " "
		}
	}
	for name, cut := range map[string]int{"one by one": 0, "pipelined": -1, "two writes": 20} {
		for _, only := range []bool{true, false} { // only GETs without body, or all kinds
			c, br := l.dial(t, g.addr)
			var wants []string
			var all strings.Builder
			for i := range 60 {
				if only && i%7 != 1 && i%7 != 2 && i%7 != 0 {
					continue
				}
				raw, want := request(i)
				wants = append(wants, want)
				if cut < 0 {
					all.WriteString(raw)
					continue
				}
				_, _ = io.WriteString(c, raw[:cut])
				_, _ = io.WriteString(c, raw[cut:])
				check(t, name, br, want)
			}
			if cut < 0 {
				go func() { _, _ = io.WriteString(c, all.String()) }()
				for _, want := range wants {
					check(t, name, br, want)
				}
			}
		}
	}
}

// check reads one answer; the first refusals of "none" may be admissions.
func check(t *testing.T, name string, br *bufio.Reader, want string) {
	t.Helper()
	r, err := readReply(br)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_, err = labels.Parse([]byte(r.body))
	if want == "" && err != nil && !strings.HasSuffix(r.body, "1 ") {
		t.Errorf("%s: %s %q, want a rejection", name, r.Status, r.body)
	}
	if want != "" && r.body != want {
		t.Errorf("%s: %q, want %q", name, r.body, want)
	}
}

// A request that was decided about on the fast path and then waits in the queue
// is admitted when its turn comes, and leaves the queue when its client leaves.
func TestFastPathQueue(t *testing.T) { inLanes(t, fastPathQueue) }

func fastPathQueue(t *testing.T, l lane) {
	t.Helper()
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	backend := serveHTTP(t, func(_ http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	p := full()
	p.Default.QueueDepth, p.Default.MaxWait = 1, 20*time.Second
	g := l.start(t, backend, p, httpgate.Options{})
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	// Connections that have had their first request, so that the fast path acts.
	conns := make([]net.Conn, 4)
	readers := make([]*bufio.Reader, len(conns))
	go func() {
		for range conns {
			release <- struct{}{}
		}
	}()
	for i := range conns {
		conns[i], readers[i] = l.dial(t, g.addr)
		_, _ = io.WriteString(conns[i], get)
		if r, err := readReply(readers[i]); err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		<-arrived
	}
	queued := func(want int) {
		t.Helper()
		for until := time.Now().Add(patience); g.gate.Status().Queued != want; {
			if time.Now().After(until) {
				t.Fatalf("%d queued, want %d", g.gate.Status().Queued, want)
			}
			time.Sleep(time.Millisecond) // real sockets: nothing tells when it got there
		}
	}
	_, _ = io.WriteString(conns[0], get) // holds the permit
	<-arrived
	_, _ = io.WriteString(conns[1], get) // queues
	queued(1)
	for range 2 { // refused: by net/http, then on the fast path
		_, _ = io.WriteString(conns[2], get)
		if r, err := readReply(readers[2]); err != nil || r.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("%+v, %v; want 503", r, err)
		}
	}
	conns[1].Close()
	queued(0)
	_, _ = io.WriteString(conns[3], get) // queues from the fast path
	queued(1)
	release <- struct{}{}
	if r, err := readReply(readers[0]); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("first: %+v, %v", r, err)
	}
	<-arrived
	release <- struct{}{}
	if r, err := readReply(readers[3]); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("queued: %+v, %v", r, err)
	}
}

// An empty line before a request, as some clients send one behind the body of the last,
// was answered 400 when it came apart from the body.
func TestEmptyLineBeforeRequest(t *testing.T) { inLanes(t, emptyLineBeforeRequest) }

func emptyLineBeforeRequest(t *testing.T, l lane) {
	t.Helper()
	g := l.start(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), limiter.Policy{}, httpgate.Options{})
	c, br := l.dial(t, g.addr)
	for _, sent := range []string{
		"\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
	} {
		_, _ = io.WriteString(c, sent)
		if sent == "\r\n" {
			continue
		}
		if r, err := readReply(br); err != nil || r.body != "abc" {
			t.Fatalf("%q: answer %v, %v; want 200", sent, r.Response, err)
		}
	}
}

// A request that says in two ways where it ends is answered 400, and its connection is
// closed: who stands before the gate may have read the other one.
func TestFramedTwice(t *testing.T) { inLanes(t, framedTwice) }

func framedTwice(t *testing.T, l lane) {
	t.Helper()
	g := l.start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{})
	c, br := l.dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadRequest || !r.Close {
		t.Fatalf("answer %v, %v; want 400 and the end of the connection", r.Response, err)
	}
	if rest, err := io.ReadAll(br); len(rest) > 0 {
		t.Errorf("%q, %v came behind it", rest, err)
	}
	if n := g.Status().BackendDials; n != 0 {
		t.Errorf("%d connections to the backend, want none", n)
	}
}
