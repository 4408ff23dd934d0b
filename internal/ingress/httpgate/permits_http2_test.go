package httpgate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// A request that waits leaves the queue as its stream is reset or its connection ends,
// and not before; those behind it move up.
func TestHTTP2LeavingTheQueue(t *testing.T) { inLanes(t, leavingTheQueue) }

func leavingTheQueue(t *testing.T, l lane) {
	t.Helper()
	p := one()
	p.Default.QueueDepth, p.Default.MaxWait = 9, time.Hour
	g := l.frugal(t, serveHTTP(t, func(http.ResponseWriter, *http.Request) {}), p, httpgate.Options{})
	permit, err := g.gate.TryAdmit(g.gate.Now(), limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	queued := func(n int) {
		t.Helper()
		if !until(func() bool { return g.gate.Status().Queued == n }) {
			t.Fatalf("%d requests wait, want %d", g.gate.Status().Queued, n)
		}
	}
	c, other := l.speak(t, g.addr, rawhttp2.Options{}), l.speak(t, g.addr, rawhttp2.Options{})
	c.Ask(1, "GET", "/")
	queued(1)
	c.Begin(3, "POST", "/") // with a body that has not come
	queued(2)
	c.Ask(5, "GET", "/")
	queued(3)
	other.Ask(1, "GET", "/")
	other.Ask(3, "GET", "/")
	queued(5)
	c.Reset(1)
	queued(4)
	c.Reset(3)
	queued(3)
	_ = other.Close()
	queued(1)
	permit.End(limiter.Ignored)
	if got := c.Answer(5); got.Status != "200" {
		t.Errorf("%+v, want 200 for who stayed", got)
	}
	if got := g.gate.Status().Partitions[0].Counts.GaveUp; got != 4 {
		t.Errorf("%d gave up, want 4", got)
	}
}

// However a stream ends, its permit ends once: with the backend's work where that goes
// on, at once where the backend is hung up on. The connection serves the next stream,
// if it is still there.
func TestHTTP2PermitEnds(t *testing.T) {
	const part = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"
	reset := func(c *rawhttp2.Conn) { c.Reset(1) }
	cut := func(c *rawhttp2.Conn) { _ = c.Close() }
	for name, tc := range map[string]struct {
		body    string // "" = none; otherwise it does not end
		before  string // what the backend says at first
		leave   func(c *rawhttp2.Conn)
		after   string // what it says then, and hangs up
		outcome limiter.Outcome
		goesOn  bool // the permit waits for the backend
	}{
		"reset before the answer":  {leave: reset, after: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", outcome: limiter.Success, goesOn: true},
		"cut before the answer":    {leave: cut, after: "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", outcome: limiter.Dropped, goesOn: true},
		"reset within the answer":  {before: part, leave: reset, after: "0\r\n\r\n", outcome: limiter.Success, goesOn: true},
		"cut within the answer":    {before: part, leave: cut, after: "0\r\n\r\n", outcome: limiter.Success, goesOn: true},
		"reset within the body":    {body: "abc", leave: reset, outcome: limiter.Ignored, goesOn: true},
		"cut within the body":      {body: "abc", leave: cut, outcome: limiter.Ignored, goesOn: true},
		"the backend dies":         {leave: func(*rawhttp2.Conn) {}, outcome: limiter.Dropped},
		"the backend dies within":  {before: part, leave: func(*rawhttp2.Conn) {}, outcome: limiter.Dropped},
		"reset, the backend dies":  {leave: reset, outcome: limiter.Dropped, goesOn: true},
		"a stream of events reset": {before: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n", leave: reset, outcome: limiter.Success},
	} {
		for _, cancel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancel %v", name, cancel), func(t *testing.T) {
				arrived, left := make(chan struct{}), make(chan struct{})
				g := lane{}.frugal(t, serveRaw(t, func(c net.Conn, br *bufio.Reader) {
					head, err := readRequestHead(br)
					if err != nil {
						return
					}
					if strings.HasPrefix(head, "GET /well ") {
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
						return
					}
					_, _ = io.WriteString(c, tc.before)
					arrived <- struct{}{}
					select {
					case <-left:
					case <-t.Context().Done(): // the test has failed
					}
					_, _ = io.WriteString(c, tc.after)
				}), one(), httpgate.Options{CancelAbandoned: cancel})
				c := lane{}.speak(t, g.addr, rawhttp2.Options{})
				if tc.body == "" {
					c.Ask(1, "GET", "/")
				} else {
					c.Begin(1, "POST", "/")
					_ = c.Data(1, false, []byte(tc.body))
				}
				<-arrived
				if tc.before != "" {
					c.Head(1)
				}
				tc.leave(c)
				want := tc.outcome
				switch {
				case tc.goesOn && !cancel:
					if !until(func() bool { return g.gate.Status().Partitions[0].Abandoned == 1 }) {
						t.Error("the gate does not know that the client has left")
					}
					if n := g.gate.Status().InFlight; n != 1 {
						t.Errorf("%d permits are held while the backend works, want 1", n)
					}
					close(left)
				case tc.goesOn:
					want = limiter.Ignored
					defer close(left) // the permit ends before
				default:
					close(left)
				}
				if e := g.ends.wait(t); e.outcome != want {
					t.Errorf("outcome %v, want %v", e.outcome, want)
				}
				g.serves(t, lane{})
			})
		}
	}
}

// panics follows requests, and fails.
type panics struct{}

func (panics) Begin(r *http.Request) (context.Context, httpgate.Span) {
	if r.URL.Path == "/begin" {
		panic("at the beginning")
	}
	return r.Context(), endsBadly(r.URL.Path == "/end")
}

type endsBadly bool

func (b endsBadly) End(httpgate.Result) {
	if b {
		panic("at the end")
	}
}

// A panic in the handling of a request ends its stream and no other; its permit ends,
// and the process goes on.
func TestHTTP2Panic(t *testing.T) {
	release := make(chan struct{})
	g := lane{}.frugal(t, serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			<-release
		}
	}), limiter.Policy{}, httpgate.Options{Observer: panics{}})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	c.Ask(1, "GET", "/long")
	for id := uint32(3); id < 20; id += 4 {
		c.Ask(id, "GET", "/begin")
		c.Ask(id+2, "GET", "/end")
		for _, id := range []uint32{id, id + 2} {
			if got := c.Answer(id); got.Reset == nil && got.Status != "500" && got.Status != "200" {
				t.Errorf("%+v, want the stream reset", got)
			}
		}
	}
	close(release)
	if got := c.Answer(1); got.Status != "200" || !got.Ended {
		t.Errorf("%+v, want 200 beside streams that fail", got)
	}
}
