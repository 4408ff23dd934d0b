package httpgate_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/golden"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// refusers have a gate refuse everybody, each for another reason.
func refusers() map[string]func(*testing.T, *limiter.Gate) {
	return map[string]func(*testing.T, *limiter.Gate){
		"rate": func(t *testing.T, g *limiter.Gate) {
			t.Helper()
			g.Apply(&limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}, Classes: &limiter.Classes{}})
			permit, _ := g.TryAdmit(g.Now(), limiter.Request{})
			permit.End(limiter.Ignored)
		},
		"total": func(t *testing.T, g *limiter.Gate) {
			t.Helper()
			g.Apply(&limiter.Policy{Total: 1, Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1) }}})
			permit, _ := g.TryAdmit(g.Now(), limiter.Request{})
			t.Cleanup(func() { permit.End(limiter.Ignored) })
		},
		"draining": func(_ *testing.T, g *limiter.Gate) { g.Drain() },
	}
}

// The exact bytes of refusals on the fast path, but for the date, and without
// waits, which are jittered. A gate that drains once said twice that the connection ends.
func TestRefusalBytesOnTheFastPath(t *testing.T) {
	date := regexp.MustCompile(`Date: [^\r]*\r`)
	var all strings.Builder
	refuse := refusers()
	for _, name := range slices.Sorted(maps.Keys(refuse)) {
		for _, status := range []int{0, 462} {
			g := start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{
				By: []string{"header:X-Tenant"}, Status: status, NoHints: true, Rate: func(string) limiter.Rate { return limiter.Rate{PerSecond: 5} },
			})
			refuse[name](t, g.gate)
			c, _ := dial(t, g.addr)
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: <acme>\r\n\r\n")
			var raw bytes.Buffer
			if _, err := readReply(bufio.NewReader(io.TeeReader(c, &raw))); err != nil {
				t.Fatal(err)
			}
			all.Write(date.ReplaceAll(append(raw.Bytes(), "\n\n"...), []byte("Date: then\r")))
		}
	}
	golden.Text(t, "doorstep.golden", strings.ReplaceAll(all.String(), "\r\n", "\n"))
}

// What is refused on the fast path is worded once for all who are refused for the
// same cause. It says what net/http's lane says, to every tenant, class, method and
// rate, whether its wording is kept or not: there are more tenants than places.
func TestRefusalsAreWordedAlike(t *testing.T) {
	for name, refuse := range refusers() {
		t.Run(name, func(t *testing.T) {
			var rate atomic.Pointer[limiter.Rate]
			g := start(t, "127.0.0.1:1", limiter.Policy{}, httpgate.Options{
				By: []string{"header:X-Tenant"}, CostHeader: "X-Cost", Classes: &ingress.Classes{By: []string{"header:X-Class"}},
				Rate: func(string) limiter.Rate { return *rate.Load() },
			})
			refuse(t, g.gate)
			ask := asker(t, g.addr)
			for round, perSecond := range []float64{5, 7, 5} {
				rate.Store(&limiter.Rate{PerSecond: perSecond})
				for i := range 300 {
					r := httptest.NewRequest([]string{http.MethodGet, http.MethodHead}[i%2], "/", http.NoBody)
					r.Header.Set("X-Tenant", fmt.Sprint("tenant-", i))
					r.Header.Set("X-Class", []string{"critical", "sheddable", "none"}[(i+round)%3])
					r.Header.Set("X-Cost", []string{"1", "1e6"}[i%5/4])
					w := httptest.NewRecorder()
					g.ServeHTTP(w, r)
					want := refusalOf(t, r, reply{w.Result(), w.Body.String()})
					for range 2 {
						if diff := cmp.Diff(want, refusalOf(t, r, ask(r))); diff != "" {
							t.Fatalf("%s %v (-net/http +doorstep):\n%s", r.Method, r.Header, diff)
						}
					}
				}
			}
		})
	}
}

// asker returns what asks the gate on the fast path, over one connection for as long
// as it lasts.
func asker(t *testing.T, addr string) func(*http.Request) reply {
	t.Helper()
	var c net.Conn
	var br *bufio.Reader
	return func(r *http.Request) reply {
		if c == nil {
			c, br = dial(t, addr)
		}
		_ = r.Write(c)
		resp, err := http.ReadResponse(br, r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.Close {
			defer func() { c.Close(); c = nil }()
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{resp, string(body)}
	}
}

// refusalOf returns what an answer says, without the waits: they are jittered, and
// must agree with each other.
func refusalOf(t *testing.T, r *http.Request, resp reply) (said struct {
	Status int
	Header http.Header
	Doc    labels.Document
},
) {
	t.Helper()
	h := resp.Header
	length, wait := h.Get("Content-Length"), h.Get("Retry-After")
	if r.Method != http.MethodHead {
		doc, err := labels.Parse([]byte(resp.body))
		if err != nil || length != strconv.Itoa(len(resp.body)) {
			t.Fatalf("%q in %s bytes: %v", resp.body, length, err)
		}
		if doc.RetryableOverload() && wait != strconv.FormatInt(labels.RetryAfterSeconds(doc.RetryAfterMS), 10) {
			t.Errorf("Retry-After is %q, the document says %d ms", wait, doc.RetryAfterMS)
		}
		doc.RetryAfterMS, doc.BaseBackoffMS = 0, 0
		said.Doc = doc
	}
	if limit, ok := strings.CutSuffix(h.Get("RateLimit"), ";t="+wait); ok && wait != "" {
		h.Set("RateLimit", limit)
	} else if ok || wait != "" && h.Get("RateLimit") != "" {
		t.Errorf("RateLimit is %q, Retry-After %q", h.Get("RateLimit"), wait)
	}
	for _, name := range []string{"Date", "Content-Length", "Retry-After", "Connection"} {
		h.Del(name)
	}
	said.Status, said.Header = resp.StatusCode, h
	return said
}
