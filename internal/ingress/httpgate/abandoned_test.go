package httpgate_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// one admits one request at a time.
func one() limiter.Policy {
	return limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1) }}}
}

// leaves sends a request to a backend that has it once arrived yields, and hangs
// up.
func leaves(t *testing.T, client *http.Client, url string, arrived <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	go func() { <-arrived; cancel() }()
	if resp, err := client.Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("answered %s, want the client to leave first", resp.Status)
	}
}

// A permit stands for work at the backend. It once ended when the client hung up,
// while the backend went on: clients with less patience than the backend needs
// piled up any amount of work behind any limit.
func TestPermitOutlivesClient(t *testing.T) {
	for _, proto := range []string{"1", "2"} {
		arrived, release := make(chan struct{}, 1), make(chan struct{})
		backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			arrived <- struct{}{}
			<-release
			_, _ = io.WriteString(w, "done")
		})
		g := start(t, backend, one(), httpgate.Options{})
		client := newClient(t, proto)
		leaves(t, client, g.url, arrived)
		client.Timeout = 20 * time.Second // what is let through hangs
		for range 20 {                    // over HTTP/1.1 the first of them may come before the gate sees the other leave
			resp, err := client.Get(g.url)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if reason := resp.Header.Get(labels.HeaderReason); reason != string(labels.ConcurrencyLimit) {
				t.Fatalf("HTTP/%s: answer %s for %q while the backend works, want %s", proto, resp.Status, reason, labels.ConcurrencyLimit)
			}
		}
		close(release)
		if e := g.ends.wait(t); e.outcome != limiter.Success {
			t.Errorf("HTTP/%s: outcome %v, want success", proto, e.outcome)
		}
		g.idle(t, 1)
		if resp, body := get(t, g.url); resp.StatusCode != http.StatusOK || body != "done" {
			t.Errorf("HTTP/%s: %s %q after the backend has answered, want 200", proto, resp.Status, body)
		}
		if n := g.Status().BackendDials; n != 1 {
			t.Errorf("HTTP/%s: %d connections to the backend, want the one kept", proto, n)
		}
	}
}

// What the backend answers to nobody counts as it would to somebody.
func TestAnswersToNobody(t *testing.T) {
	short := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"
	for name, tc := range map[string]struct {
		answer  string
		outcome limiter.Outcome
		kept    bool
	}{
		"short":        {short, limiter.Success, true},
		"chunked":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n", limiter.Success, true},
		"with interim": {"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + short, limiter.Success, true},
		"overloaded":   {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", limiter.Dropped, true},
		"failed":       {"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", limiter.Ignored, true},
		"closing":      {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone", limiter.Success, false},
		"stream":       {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n", limiter.Success, false},
		"long":         {"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 3000000), limiter.Ignored, false},
		"broken":       {"garbage\r\n\r\n", limiter.Ignored, false},
		"nothing":      {"", limiter.Dropped, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, release := make(chan struct{}, 1), make(chan struct{})
			backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
				if _, err := readRequestHead(br); err != nil {
					return
				}
				arrived <- struct{}{}
				<-release
				_, _ = io.WriteString(c, tc.answer)
				if tc.answer != "" {
					_, _ = br.ReadByte() // until the gate closes
				}
			})
			g := start(t, backend, one(), httpgate.Options{})
			leaves(t, newClient(t, "1"), g.url, arrived)
			for g.Status().Connections.Open > 0 {
				runtime.Gosched()
			}
			close(release)
			if e := g.ends.wait(t); e.outcome != tc.outcome {
				t.Errorf("outcome %v, want %v", e.outcome, tc.outcome)
			}
			want := 0
			if tc.kept {
				want = 1
			}
			g.idle(t, want)
		})
	}
}

// A client that leaves in the middle of an answer leaves the rest to nobody.
func TestClientLeavesDuringAnswer(t *testing.T) { inLanes(t, clientLeavesDuringAnswer) }

func clientLeavesDuringAnswer(t *testing.T, l lane) {
	t.Helper()
	release := make(chan struct{})
	backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "more")
	})
	g := l.start(t, backend, one(), httpgate.Options{})
	resp, err := newClient(t, "1").Get(g.url)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // hangs up
	for g.Status().Connections.Open > 0 {
		runtime.Gosched()
	}
	if n := g.gate.Status().InFlight; n != 1 {
		t.Errorf("%d permits held while the backend works, want 1", n)
	}
	close(release)
	if e := g.ends.wait(t); e.outcome != limiter.Success {
		t.Errorf("outcome %v, want success", e.outcome)
	}
}

// A backend that reads the body of a request to its end is told that it will not
// come, and its permit ends when it closes the connection.
func TestClientLeavesDuringUpload(t *testing.T) { inLanes(t, clientLeavesDuringUpload) }

func clientLeavesDuringUpload(t *testing.T, l lane) {
	t.Helper()
	arrived, hungUp := make(chan struct{}, 1), make(chan struct{}, 1)
	backend := serveRaw(t, func(_ net.Conn, br *bufio.Reader) {
		_, _ = readRequestHead(br)
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, br)
		hungUp <- struct{}{}
	})
	g := l.start(t, backend, one(), httpgate.Options{BodyGrace: time.Millisecond, MinBodyRate: httpgate.AnyRate})
	c, _ := l.dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nonly this")
	<-arrived
	_ = c.Close()
	if e := g.ends.wait(t); e.outcome != limiter.Ignored {
		t.Errorf("outcome %v, want ignored", e.outcome)
	}
	<-hungUp
}

// A backend that begins with the head of a request works on one whose body never
// comes whole. The permit once ended with the client's part: 50 requests were at work
// at once behind a limit of 4.
func TestUnfinishedRequestHoldsItsPermit(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	chunked := post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	slow := httpgate.Options{StreamIdle: 30 * time.Millisecond}
	for name, tc := range map[string]struct {
		o      httpgate.Options
		sent   string
		rest   string // sent when the backend has the head
		leaves bool
		status int // of the answer to who stays
	}{
		"chunked":            {sent: chunked, leaves: true},
		"length":             {sent: post + "Content-Length: 100000\r\n\r\nhello", leaves: true},
		"malformed chunk":    {sent: chunked, rest: "xyz\r\n", status: http.StatusBadRequest},
		"malformed trailer":  {sent: chunked, rest: "0\r\nno field\r\n\r\n", status: http.StatusBadRequest},
		"too slow":           {o: slow, sent: post + "Content-Length: 100000\r\n\r\nhello", status: http.StatusRequestTimeout},
		"too slow, chunked":  {o: slow, sent: chunked, status: http.StatusRequestTimeout},
		"too large, chunked": {o: httpgate.Options{MaxBody: 6}, sent: chunked, rest: "5\r\nhello\r\n", status: http.StatusRequestEntityTooLarge},
		"past its deadline":  {sent: strings.Replace(chunked, "\r\n\r\n", "\r\n"+labels.HeaderDeadline+": 30\r\n\r\n", 1), status: http.StatusGatewayTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			backend, arrived, release := eager(t)
			g := start(t, backend, one(), tc.o)
			c, br := dial(t, g.addr)
			_, _ = io.WriteString(c, tc.sent)
			<-arrived
			_, _ = io.WriteString(c, tc.rest)
			if tc.leaves {
				_ = c.Close()
			} else if r, err := readReply(br); err != nil || r.StatusCode != tc.status {
				t.Errorf("answer %v, %v; want %d", r.Response, err, tc.status)
			}
			g.worksForNobody(t, release)
		})
	}
	for name, tc := range map[string]struct {
		o      httpgate.Options
		more   int // bytes of the body, once the backend has the head
		leaves bool
		status string
	}{
		"reset":     {leaves: true},
		"too slow":  {o: slow, status: "408"},
		"too large": {o: httpgate.Options{MaxBody: 6}, more: 5, status: "413"},
	} {
		t.Run("HTTP/2, "+name, func(t *testing.T) {
			backend, arrived, release := eager(t)
			g := start(t, backend, one(), tc.o)
			c := lane{}.speak(t, g.addr, rawhttp2.Options{})
			c.Begin(1, "POST", "/")
			_ = c.Data(1, false, []byte("hello"))
			<-arrived
			if tc.more > 0 {
				_ = c.Data(1, false, make([]byte, tc.more))
			}
			if tc.leaves {
				c.Reset(1)
			} else if got := c.Answer(1); got.Status != tc.status {
				t.Errorf("answer %+v; want %s", got, tc.status)
			}
			g.worksForNobody(t, release)
		})
	}
}

// eager is a backend that begins with the head of a request, answers when it is
// released, and closes a connection of which its client has closed its half, as Node.js
// does.
func eager(t *testing.T) (addr string, arrived <-chan struct{}, release chan struct{}) {
	t.Helper()
	begun, release := make(chan struct{}, 1), make(chan struct{})
	return serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := readRequestHead(br); err != nil {
			return
		}
		begun <- struct{}{}
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = io.Copy(io.Discard, br) }()
		select {
		case <-release:
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			<-ended
		case <-ended:
		}
	}), begun, release
}

// worksForNobody checks that one permit is held until the backend, which release lets
// go on, has answered somebody who does not wait any more, and that this teaches
// nothing.
func (g *gated) worksForNobody(t *testing.T, release chan<- struct{}) {
	t.Helper()
	for deadline := time.Now().Add(patience); g.gate.Status().Partitions[0].Abandoned != 1; runtime.Gosched() {
		if time.Now().After(deadline) || g.gate.Status().InFlight == 0 {
			t.Fatalf("%+v; want a permit that is held for nobody", g.gate.Status().Partitions)
		}
	}
	if r, _ := get(t, g.url); r.Header.Get(labels.HeaderReason) != string(labels.ConcurrencyLimit) {
		t.Errorf("answer %s while the backend works, want %s", r.Status, labels.ConcurrencyLimit)
	}
	close(release)
	if e := g.ends.wait(t); e.outcome != limiter.Ignored {
		t.Errorf("outcome %v, want ignored", e.outcome)
	}
	if n := g.Status().Backends[0].Failures; slices.Max(n) != 0 {
		t.Errorf("failures of the backend %v, want none", n)
	}
}

// A drain waits for work that nobody waits for, and cuts it off at its bound
// without calling that a failure.
func TestDrainWaitsForAbandoned(t *testing.T) {
	for _, finishes := range []bool{true, false} {
		arrived, release := make(chan struct{}, 1), make(chan struct{})
		backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) {
			arrived <- struct{}{}
			<-release
		})
		g := start(t, backend, one(), httpgate.Options{})
		leaves(t, newClient(t, "1"), g.url, arrived)
		for g.Status().Connections.Open > 0 {
			runtime.Gosched()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if finishes {
			ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
			time.AfterFunc(50*time.Millisecond, func() { close(release) })
		}
		if err := g.Drain(ctx); err != nil {
			t.Errorf("Drain = %v, want nil: nobody misses what was cut off", err)
		}
		cancel()
		e := g.ends.wait(t)
		if finishes && e.outcome != limiter.Success {
			t.Errorf("outcome %v, want success", e.outcome)
		}
		if n := g.gate.Status().InFlight; n != 0 {
			t.Errorf("%d permits held after the drain, want none", n)
		}
		if !finishes {
			close(release)
		}
	}
}

// A backend that cannot be connected to is to blame for it, however little
// patience its clients have: they did not wait for its work.
func TestDeadlineDuringConnect(t *testing.T) {
	backend := serveRaw(t, func(_ net.Conn, br *bufio.Reader) { _, _ = io.Copy(io.Discard, br) }) // says nothing, not even TLS
	g := start(t, "https://"+backend, one(), httpgate.Options{ConnectTimeout: 100 * time.Millisecond})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
	req.Header.Set(labels.HeaderDeadline, "20")
	if resp, body := do(t, req); resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("answer %s %q, want 504", resp.Status, body)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Dropped {
		t.Errorf("outcome %v, want dropped", e.outcome)
	}
	if n := g.Status().Backends[0].Failures[ingress.Silent]; n != 1 {
		t.Errorf("%d failures of the backend counted, want 1", n)
	}
}

// A deadline that passes while the client still uploads is the client's own affair:
// the backend, which has only a part of the request, is told that no more will come.
func TestDeadlineDuringUpload(t *testing.T) {
	hungUp := make(chan struct{}, 1)
	backend := serveRaw(t, func(_ net.Conn, br *bufio.Reader) {
		_, _ = io.Copy(io.Discard, br)
		hungUp <- struct{}{}
	})
	g := start(t, backend, one(), httpgate.Options{BodyGrace: time.Millisecond, MinBodyRate: httpgate.AnyRate})
	c, br := dial(t, g.addr)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\n"+labels.HeaderDeadline+": 50\r\nContent-Length: 1000000\r\n\r\nonly this")
	if r, err := readReply(br); err != nil || r.StatusCode != http.StatusGatewayTimeout || !r.Close {
		t.Errorf("answer %v, %v; want 504 and the end of the connection", r.Response, err)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Ignored {
		t.Errorf("outcome %v, want ignored", e.outcome)
	}
	<-hungUp
	if n := g.Status().Backends[0].Failures[ingress.Silent]; n != 0 {
		t.Errorf("%d failures of the backend counted, want none", n)
	}
}

// stuck is a client that takes nothing of an answer until it is let go.
type stuck struct {
	http.ResponseWriter
	free chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.ResponseWriter.Write(p)
}

// What is left for the client to take holds no permit: a client that did not read
// its answer once held one for a minute per request.
func TestUnreadAnswerHoldsNoPermit(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n" + strings.Repeat("x", 30000),
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n",
	} {
		g := start(t, serveRaw(t, always(answer)), one(), httpgate.Options{})
		w := stuck{httptest.NewRecorder(), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		}()
		if e := g.ends.wait(t); e.outcome != limiter.Success {
			t.Errorf("%s: outcome %v, want success", name, e.outcome)
		}
		close(w.free)
		<-done
	}
}

// A client has to take a long answer at the least rate at which it would have to
// send a body: one that does not read is given up after the grace, and the
// backend is hung up on.
func TestClientThatDoesNotRead(t *testing.T) {
	for _, proto := range []string{"1", "2"} {
		backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 32<<20)) })
		g := start(t, backend, one(), httpgate.Options{BodyGrace: 100 * time.Millisecond, MinBodyRate: 100 << 20, StreamIdle: time.Hour})
		resp, err := newClient(t, proto).Get(g.url)
		if err != nil {
			t.Fatal(err)
		}
		if e := g.ends.wait(t); e.outcome != limiter.Ignored {
			t.Errorf("HTTP/%s: outcome %v, want ignored", proto, e.outcome)
		}
		resp.Body.Close()
	}
}

// Clients that take nothing of their answers give permits up while others are refused,
// long before their grace is over; see TestStalledAnswers of package exchange.
func TestStalledAnswersMakeRoom(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/long" {
					_, _ = w.Write(make([]byte, 64<<20))
				}
			})
			two := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(2) }}}
			g := start(t, backend, two, httpgate.Options{BodyGrace: time.Hour, StreamIdle: time.Hour})
			if proto == "HTTP/2" {
				c := lane{}.speak(t, g.addr, rawhttp2.Options{Stingy: true, Settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}})
				c.Ask(1, "GET", "/long")
				c.Ask(3, "GET", "/long")
			} else {
				for range 2 {
					c, _ := dial(t, g.addr)
					_, _ = io.WriteString(c, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
				}
			}
			if !until(func() bool { return g.gate.Status().InFlight == 2 }) {
				t.Fatal("no permits are held")
			}
			client, began := newClient(t, "1"), time.Now()
			if !until(func() bool {
				resp, err := client.Get(g.url)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				return resp.StatusCode == http.StatusOK
			}) {
				t.Errorf("others are refused for %v", time.Since(began))
			}
			if n := g.gate.Status().InFlight; n != 1 {
				t.Errorf("%d permits are held, want the one that clients may stall", n)
			}
		})
	}
}

// A deadline that passed between the head of an answer and its body cut the
// connection, although the caller had been told nothing: it is told 504, and the
// rest of the answer is read to nobody.
func TestDeadlineBeforeBody(t *testing.T) { inLanes(t, deadlineBeforeBody) }

func deadlineBeforeBody(t *testing.T, l lane) {
	t.Helper()
	release := make(chan struct{})
	backend := serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := readRequestHead(br); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
		<-release
		_, _ = io.WriteString(c, "done")
		_, _ = br.ReadByte() // until the gate closes
	})
	g := l.start(t, backend, one(), httpgate.Options{})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, nil)
	req.Header.Set(labels.HeaderDeadline, "50")
	resp, err := newClient(t, "1").Do(req)
	close(release)
	if err != nil {
		t.Fatalf("%v, want an answer", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("answer %s, want 504", resp.Status)
	}
	if e := g.ends.wait(t); e.outcome != limiter.Success {
		t.Errorf("outcome %v, want success", e.outcome)
	}
}
