package httpgate_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A refusal on the doorstep and one behind net/http say the same.
func TestDoorstepSaysTheSame(t *testing.T) {
	p := limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001}}
	g := start(t, "127.0.0.1:1", p, httpgate.Options{By: []string{"header:x-tenant"}, NoHints: true, Rate: func(string) limiter.Rate { return p.Rate }})
	c, br := dial(t, g.addr)
	var seen []reply
	for range 4 { // admitted, refused by net/http, refused on the doorstep twice
		_, _ = io.WriteString(c, "GET /a?b HTTP/1.1\r\nHost: a\r\nX-Tenant: acme\r\n\r\n")
		r, err := readReply(br)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Del("Date")
		seen = append(seen, r)
	}
	if seen[0].StatusCode != http.StatusBadGateway || seen[1].StatusCode != http.StatusTooManyRequests {
		t.Fatalf("answers %s, %s; want 502, 429", seen[0].Status, seen[1].Status)
	}
	for _, r := range seen[2:] {
		if diff := cmp.Diff(seen[1].Header, r.Header); diff != "" || r.Status != seen[1].Status {
			t.Errorf("%s (-net/http +doorstep):\n%s", r.Status, diff)
		}
		if diff := cmp.Diff(seen[1].body, r.body); diff != "" {
			t.Errorf("body (-net/http +doorstep):\n%s", diff)
		}
	}
	if n := g.gate.Status().Bucket; n == nil || n.Tokens >= 1 {
		t.Errorf("bucket %+v, want less than a token", n)
	}
}

// Whatever mix of requests comes over one connection, each gets its own answer,
// in order, and no permit is left behind.
func TestDoorstepKeepsOrder(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.RequestURI, body)
	})
	p := limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "none", Match: "none", Rate: limiter.Rate{PerSecond: 0.001}}}}
	g := start(t, backend, p, httpgate.Options{By: []string{"header:x-tenant"}})
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
			c, br := dial(t, g.addr)
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

// A request that was decided about on the doorstep and then waits in the queue
// is admitted when its turn comes, and leaves the queue when its client leaves.
func TestDoorstepQueue(t *testing.T) {
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	backend := serveHTTP(t, func(_ http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	p := full()
	p.Default.QueueDepth, p.Default.MaxWait = 1, 20*time.Second
	g := start(t, backend, p, httpgate.Options{})
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	// Connections that have had their first request, so that the doorstep acts.
	conns := make([]net.Conn, 4)
	readers := make([]*bufio.Reader, len(conns))
	go func() {
		for range conns {
			release <- struct{}{}
		}
	}()
	for i := range conns {
		conns[i], readers[i] = dial(t, g.addr)
		_, _ = io.WriteString(conns[i], get)
		if r, err := readReply(readers[i]); err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		<-arrived
	}
	queued := func(want int) {
		t.Helper()
		for until := time.Now().Add(5 * time.Second); g.gate.Status().Queued != want; {
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
	for range 2 { // refused: by net/http, then on the doorstep
		_, _ = io.WriteString(conns[2], get)
		if r, err := readReply(readers[2]); err != nil || r.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("%+v, %v; want 503", r, err)
		}
	}
	conns[1].Close()
	queued(0)
	_, _ = io.WriteString(conns[3], get) // queues from the doorstep
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
