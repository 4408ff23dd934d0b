package httpgate_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// crowded is a gate whose one place is taken, before a backend that is not there.
func crowded(t *testing.T, l lane, o httpgate.Options) *gated {
	t.Helper()
	g := l.frugal(t, "127.0.0.1:1", full(), o)
	permit, err := g.gate.TryAdmit(g.gate.Now(), limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { permit.End(limiter.Ignored) })
	return g
}

// A refusal says the same over HTTP/2 as over HTTP/1.1: the same document, and the
// same fields less the connection's own.
func TestHTTP2Refusal(t *testing.T) { inLanes(t, refusalsOverHTTP2) }

func refusalsOverHTTP2(t *testing.T, l lane) {
	t.Helper()
	rate := limiter.Policy{Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 100}}
	occupy := func(t *testing.T, g *limiter.Gate) {
		t.Helper()
		permit, err := g.TryAdmit(g.Now(), limiter.Request{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { permit.End(limiter.Ignored) })
	}
	queue := full()
	queue.Default.QueueDepth, queue.Default.MaxWait = 5, time.Millisecond
	for name, tc := range map[string]struct {
		policy  limiter.Policy
		prepare func(*testing.T, *limiter.Gate)
		o       httpgate.Options
		cost    string
	}{
		"request_rate":         {policy: rate, prepare: occupy},
		"concurrency_limit":    {policy: full(), prepare: occupy},
		"queue_timeout":        {policy: queue, prepare: occupy},
		"cost_exceeds_burst":   {policy: rate, prepare: func(*testing.T, *limiter.Gate) {}, cost: "50"},
		"draining":             {policy: full(), prepare: func(_ *testing.T, g *limiter.Gate) { g.Drain() }},
		"462":                  {policy: full(), prepare: occupy, o: httpgate.Options{Status: 462}},
		"429":                  {policy: full(), prepare: occupy, o: httpgate.Options{Status: 429}},
		"503 by rate":          {policy: rate, prepare: occupy, o: httpgate.Options{Status: 503}},
		"without hints":        {policy: rate, prepare: occupy, o: httpgate.Options{NoHints: true}},
		"followed":             {policy: full(), prepare: occupy, o: httpgate.Options{Observer: &spans{}}},
		"timed":                {policy: full(), prepare: occupy, o: httpgate.Options{Timing: true}},
		"timed and followed":   {policy: rate, prepare: occupy, o: httpgate.Options{Timing: true, Observer: &spans{}}},
		"under a client's key": {policy: rate, prepare: occupy, o: httpgate.Options{By: []string{"header:X-Tenant"}}, cost: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.CostHeader, tc.o.Rate = "X-Cost", func(string) limiter.Rate { return tc.policy.Rate }
			g := l.start(t, "127.0.0.1:1", tc.policy, tc.o)
			tc.prepare(t, g.gate)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url, http.NoBody)
			req.Header.Set("X-Cost", tc.cost)
			req.Header.Set("X-Tenant", "acme")
			client := newClient(t, "1")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var want rawhttp2.Stream
			want.Status = fmt.Sprint(resp.StatusCode)
			for name, values := range resp.Header {
				if name != "Connection" { // net/http's client leaves it out
					want.Fields = append(want.Fields, strings.ToLower(name)+": "+strings.Join(values, "|"))
				}
			}
			want.Body = make([]byte, resp.ContentLength)
			_, _ = resp.Body.Read(want.Body)
			_ = resp.Body.Close()
			c := l.speak(t, g.addr, rawhttp2.Options{})
			c.Ask(1, "GET", "/", "x-cost: "+tc.cost, "x-tenant: acme")
			got := c.Answer(1)
			if got.Status != want.Status || vaguely(got.Fields) != vaguely(want.Fields) {
				t.Errorf("head %s\n%s, over HTTP/1.1 %s\n%s", got.Status, vaguely(got.Fields), want.Status, vaguely(want.Fields))
			}
			if vaguely([]string{string(got.Body)}) != vaguely([]string{string(want.Body)}) || got.Field("content-length") != fmt.Sprint(len(got.Body)) {
				t.Errorf("body %s of %s bytes, over HTTP/1.1 %s", got.Body, got.Field("content-length"), want.Body)
			}
			if doc, err := labels.Parse(got.Body); err != nil || string(doc.Reason) != got.Field(strings.ToLower(labels.HeaderReason)) {
				t.Errorf("document %+v, %v; head %q", doc, err, got.Fields)
			}
			if name == "draining" { // who is told so may go elsewhere at once
				if away := c.Away(); away == nil || away.ErrCode != http2.ErrCodeNo || away.LastStreamID < 1 {
					t.Errorf("GOAWAY %+v, want one behind the refusal", away)
				}
				c = l.speak(t, g.addr, rawhttp2.Options{})
			}
			c.Ask(3, "HEAD", "/", "x-cost: "+tc.cost, "x-tenant: acme")
			if head := c.Answer(3); head.Status != got.Status || len(head.Body) > 0 || !head.Ended {
				t.Errorf("HEAD: %+v, want %s without a body", head, got.Status)
			}
		})
	}
}

// drawn are the parts of a refusal that differ each time: waits are jittered.
var drawn = regexp.MustCompile(`(?m)(^date: ..., |^retry-after: |;t=|gate=|Ms":|MS":|^content-length: )([^,;}\n]*)`)

// vaguely returns what does not differ, sorted.
func vaguely(lines []string) string {
	lines = slices.Sorted(slices.Values(lines))
	return drawn.ReplaceAllString(strings.Join(lines, "\n"), "$1…")
}

// A refused request with a body gets its refusal whole, whatever comes of the body;
// the connection, and its window, are there for others. 100 is said to nobody who is
// refused.
func TestHTTP2RefusalAndBody(t *testing.T) { inLanes(t, refusalAndBodyOverHTTP2) }

func refusalAndBodyOverHTTP2(t *testing.T, l lane) {
	t.Helper()
	g := crowded(t, l, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	id := uint32(1)
	for name, tc := range map[string]struct {
		fields []string
		body   int
		before bool // the body is sent before the refusal is here
	}{
		"small":                     {[]string{"content-length: 5"}, 5, false},
		"small, at once":            {[]string{"content-length: 5"}, 5, true},
		"of unknown length":         {nil, 50_000, false},
		"of unknown length at once": {nil, 50_000, true},
		"large":                     {[]string{"content-length: 1000000"}, 200_000, false},
		"large, at once":            {[]string{"content-length: 1000000"}, 200_000, true},
		"of who waits for 100":      {[]string{"content-length: 5", "expect: 100-continue"}, 0, false},
	} {
		for range 1 + tc.body/10_000 { // in sum beyond the window of the connection
			c.Begin(id, "POST", "/", tc.fields...)
			if tc.before {
				c.Send(id, false, make([]byte, tc.body))
			}
			got := c.Head(id)
			if got.Status != "503" || len(got.Interim) > 0 {
				t.Fatalf("%s: %+v, want a refusal", name, got)
			}
			if !tc.before {
				c.Send(id, tc.body == 5, make([]byte, tc.body))
			} else if tc.body == 5 {
				_ = c.Data(id, true, nil)
			}
			got = c.Answer(id)
			if _, err := labels.Parse(got.Body); err != nil || !got.Ended || len(got.Interim) > 0 || got.Reset != nil && *got.Reset != http2.ErrCodeNo && *got.Reset != http2.ErrCodeStreamClosed {
				t.Fatalf("%s: %+v, %v; want the whole document", name, got, err)
			}
			if got.Reset != nil && tc.body == 5 {
				t.Fatalf("%s: the stream is reset, which clients take for an error: %+v", name, got)
			}
			if tc.body != 5 {
				c.Reset(id) // who wanted to send more gives up
			}
			id += 2
		}
		c.Ask(id, "GET", "/")
		if got := c.Answer(id); got.Status != "503" || !got.Ended || got.Reset != nil {
			t.Fatalf("behind %s: %+v, want a refusal", name, got)
		}
		id += 2
	}
}

// The gate's own hello is answered on the same connection as refusals, while draining
// too.
func TestHTTP2Hello(t *testing.T) {
	hello := labels.ServeHello(func() (labels.Hello, bool) { return labels.Hello{Name: "orders"}, true })
	g := crowded(t, lane{}, httpgate.Options{Hello: hello})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	for id := uint32(1); id < 20; id += 6 {
		c.Ask(id, "GET", labels.HelloPath)
		c.Ask(id+2, "HEAD", labels.HelloPath)
		got := c.Answer(id)
		if h, err := labels.ParseHello(got.Body); err != nil || h.Name != "orders" || got.Status != "200" {
			t.Errorf("%+v, %v; want the gate's hello", got, err)
		}
		if got := c.Answer(id + 2); got.Status != "200" || len(got.Body) > 0 || !got.Ended {
			t.Errorf("HEAD: %+v, want 200 without a body", got)
		}
		if g.gate.Status().Draining {
			continue
		}
		c.Ask(id+4, "POST", labels.HelloPath)
		if got := c.Answer(id + 4); got.Status != "503" {
			t.Errorf("POST: %+v, want a refusal", got)
		}
		g.gate.Drain()
	}
}

// Who follows requests is told of each once, over HTTP/2 as over HTTP/1.1, of those
// that the client gave up too.
func TestHTTP2Observer(t *testing.T) {
	var seen spans
	arrived := make(chan struct{}, 1)
	g := start(t, serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "00-new" {
			t.Errorf("the backend is told %q", r.Header.Get("Traceparent"))
		}
		if r.URL.Path == "/left" {
			arrived <- struct{}{}
			<-r.Context().Done()
		}
	}), one(), httpgate.Options{Observer: &seen, By: []string{"constant:checkout"}, CancelAbandoned: true})
	c := lane{}.speak(t, g.addr, rawhttp2.Options{})
	c.Ask(1, "GET", "/")
	c.Answer(1)
	c.Ask(3, "GET", "/left")
	<-arrived
	c.Ask(5, "GET", "/")
	c.Answer(5)
	c.Reset(3)
	if err := g.Drain(t.Context()); err != nil { // so that all ends were reported
		t.Fatal(err)
	}
	var got []string
	for _, r := range seen.got {
		got = append(got, fmt.Sprint(r.Status, " ", r.Partition, " ", r.Err != nil))
	}
	slices.Sort(got)
	if want := "[0 checkout true 200 checkout false 503 checkout true]"; fmt.Sprint(got) != want {
		t.Errorf("told of %v, want %v", got, want)
	}
}
