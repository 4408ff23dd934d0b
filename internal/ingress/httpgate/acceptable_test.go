package httpgate_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// heads is a backend that tells what it got and answers 204.
func heads(t *testing.T) (addr string, got <-chan string) {
	t.Helper()
	seen := make(chan string, 64)
	return serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		for {
			head, err := readRequestHead(br)
			if err != nil {
				return
			}
			seen <- head
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}), seen
}

// A request line passes only with a path in it. "x:@internal:80/secret" once went
// to the backend as "GET @internal:80/secret", which a backend that is a proxy
// takes for a host of its own.
func TestTargets(t *testing.T) {
	backend, got := heads(t)
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	for _, tc := range []struct {
		proto                int
		method, target, want string // want is empty for 400
	}{
		{1, "GET", "/a//b;c?d", "/a//b;c?d"},
		{1, "GET", "x:@internal:80/secret", ""},
		{1, "GET", "internal:80/secret", ""},
		{1, "GET", "http:@internal/secret", ""},
		{1, "GET", "ftp://internal/secret", ""},
		{1, "GET", "http://internal/a?b", "/a?b"},
		{1, "GET", "http://internal", "/"},
		{1, "OPTIONS", "*", "*"},
		{1, "GET", "*", ""},
		{1, "GET", "/dear#cheap", ""}, // some backends end the path at it, so that /dear cost what /dear#cheap does
		{1, "GET", "/dear?a=b#c", ""},
		{2, "GET", "/dear#cheap", ""},
		{2, "GET", "http://internal/a", ""},
		{2, "GET", "/a", "/a"},
	} {
		u, err := url.ParseRequestURI(tc.target)
		if err != nil {
			t.Fatalf("%s: %v", tc.target, err)
		}
		r := httptest.NewRequestWithContext(t.Context(), tc.method, "/", http.NoBody)
		r.RequestURI, r.URL, r.ProtoMajor = tc.target, u, tc.proto
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if tc.want == "" {
			if w.Code != http.StatusBadRequest {
				t.Errorf("HTTP/%d %s %s: %d, want 400", tc.proto, tc.method, tc.target, w.Code)
				<-got
			}
			continue
		}
		if w.Code != http.StatusNoContent {
			t.Errorf("HTTP/%d %s %s: %d, want 204", tc.proto, tc.method, tc.target, w.Code)
			continue
		}
		if line, _, _ := strings.Cut(<-got, "\r\n"); line != tc.method+" "+tc.want+" HTTP/1.1" {
			t.Errorf("HTTP/%d %s %s: the backend got %q, want %q", tc.proto, tc.method, tc.target, line, tc.want)
		}
	}
}

// Gate and backend see the same tenant. Each of these once let a client be one
// tenant here and another one there.
func TestOneTenantForBoth(t *testing.T) {
	backend, got := heads(t)
	for name, tc := range map[string]struct {
		fields string
		trust  bool
		status int
		want   []string // of the fields that the backend must see
		never  []string
	}{
		"twice":             {"X-Tenant: a\r\nX-Tenant: b\r\n", false, 400, nil, nil},
		"taken out":         {"X-Tenant: a\r\nConnection: keep-alive, x-tenant\r\n", false, 400, nil, nil},
		"underscore":        {"X-Tenant: a\r\nX_Tenant: b\r\n", false, 204, []string{"X-Tenant: a"}, []string{"X_tenant"}},
		"forwarded":         {"Forwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\nX_Forwarded_For: 9.9.9.9\r\n", false, 204, nil, []string{"9.9.9.9"}},
		"forwarded, trust":  {"Forwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.8\r\n", true, 204, []string{"Forwarded: for=9.9.9.9", "X-Real-Ip: 9.9.9.8"}, nil},
		"others, as before": {"Api_Key: k\r\nAccept: a\r\nAccept: b\r\n", false, 204, []string{"Api_key: k", "Accept: a", "Accept: b"}, nil},
	} {
		g := start(t, backend, limiter.Policy{}, httpgate.Options{By: []string{"header:x-tenant"}, TrustForwarded: tc.trust})
		c, br := dial(t, g.addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n"+tc.fields+"\r\n")
		r, err := readReply(br)
		if err != nil || r.StatusCode != tc.status {
			t.Errorf("%s: answer %v, %v; want %d", name, r.Response, err, tc.status)
			continue
		}
		if tc.status != http.StatusNoContent {
			continue
		}
		head := <-got
		for _, f := range tc.want {
			if !strings.Contains(head, "\r\n"+f+"\r\n") {
				t.Errorf("%s: the backend got %q, want %q in it", name, head, f)
			}
		}
		for _, f := range tc.never {
			if strings.Contains(head, f) {
				t.Errorf("%s: the backend got %q, want no %q in it", name, head, f)
			}
		}
	}
}

// A path that gate and backend may read in two ways is not exempt, and costs and
// keys are those of its dearest or plainest reading.
func TestPathsInTwoWays(t *testing.T) {
	identify, err := httpgate.Identify(httpgate.Options{
		By:     []string{"path:/t/{tenant}/*"},
		Exempt: httpgate.Exempt{Operations: []string{"/internal/*"}},
		Costs:  []httpgate.Cost{{Operation: "/reports/all", Tokens: 50}, {Operation: "/ping", Tokens: 0.5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]limiter.Request{
		"/internal/x":               {Cost: 1, Exempt: true},
		"/internal/..;/x":           {Cost: 1},
		"/internal/..%5cx":          {Cost: 1},
		"/internal/%252e%252e/x":    {Cost: 1},
		"/internal/%2e%2e/x":        {Cost: 1},
		"/internal//x":              {Cost: 1},
		"/internal/x%2f..%2f..%2fy": {Cost: 1},
		`/internal/..\x`:            {Cost: 1},
		"/reports/all":              {Cost: 50},
		"//reports/all":             {Cost: 50},
		"/reports/all/":             {Cost: 50},
		"/reports//all//":           {Cost: 50},
		"/./reports/all":            {Cost: 50},
		"/x/..;/reports/all":        {Cost: 50},
		"/reports;v=1/all":          {Cost: 50},
		"/reports%2fall":            {Cost: 50},
		"/reports%252fall":          {Cost: 50},
		`/reports\all`:              {Cost: 50},
		"/reports/all#x":            {Cost: 50}, // as a proxy may ask about it
		"/reports/all%23x":          {Cost: 50},
		"/ping":                     {Cost: 0.5},
		"/./ping":                   {Cost: 1},
		"//t/acme/x":                {Cost: 1, Key: "acme"},
		"/t/./acme/x":               {Cost: 1, Key: "acme"},
		"/t/other/../acme/x":        {Cost: 1, Key: "acme"},
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if got := identify(&http.Request{Method: http.MethodGet, URL: u, RemoteAddr: "192.0.2.1:1"}); got != want {
			t.Errorf("%s: %+v, want %+v", target, got, want)
		}
	}
}

// Chunks that are none were once answered with a closed connection.
func TestMalformedChunks(t *testing.T) {
	backend := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	g := start(t, backend, limiter.Policy{}, httpgate.Options{})
	for _, body := range []string{"zz\r\n", "3\r\nabcd\r\n0\r\n\r\n", "fffffffffffffffff\r\n"} {
		c, br := dial(t, g.addr)
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		if r, err := readReply(br); err != nil || r.StatusCode != http.StatusBadRequest || !r.Close {
			t.Errorf("%q: answer %v, %v; want 400 and the end of the connection", body, r.Response, err)
		}
		if e := g.ends.wait(t); e.outcome != limiter.Ignored {
			t.Errorf("%q: outcome %v, want ignored", body, e.outcome)
		}
	}
}

// A change of settings keeps the connections to the backend that it does not
// concern: each once closed all that were idle, in every ingress.
func TestApplyKeepsBackendConnections(t *testing.T) {
	backend := serveRaw(t, always("HTTP/1.1 204 No Content\r\n\r\n"))
	var o httpgate.Options
	g := start(t, backend, limiter.Policy{}, o)
	get(t, g.url)
	o.Backend, o.Via, o.By = "http://"+backend, true, []string{"client"}
	if err := g.Apply(o); err != nil {
		t.Fatal(err)
	}
	if st := g.Status(); st.BackendIdle != 1 || st.BackendDials != 1 {
		t.Errorf("%d idle connections of %d opened after a change that does not concern them, want 1 of 1", st.BackendIdle, st.BackendDials)
	}
	o.BackendTLS = &tls.Config{ServerName: "a"}
	for _, change := range []func(){
		func() {}, // TLS itself
		func() { o.BackendTLS = &tls.Config{ServerName: "b"} },
		func() { o.MaxIdle = 3 },
		func() { o.Backend = "http://127.0.0.1:1" },
	} {
		before := g.Upstream()
		change()
		if err := g.Apply(o); err != nil {
			t.Fatal(err)
		}
		if g.Upstream() == before {
			t.Errorf("connections are kept although %+v concerns them", o)
		}
		same := o
		same.BackendTLS = o.BackendTLS.Clone() // as a reload makes it anew
		before = g.Upstream()
		if err := g.Apply(same); err != nil {
			t.Fatal(err)
		}
		if g.Upstream() != before {
			t.Error("connections are closed although nothing changed")
		}
	}
}

// Which statuses mean overload is the operator's to say; a 429 is not among them
// unless it is named.
func TestOverloadStatus(t *testing.T) {
	for answer, want := range map[string]limiter.Outcome{
		"429 Too Many Requests": limiter.Dropped, "529 Site Overloaded": limiter.Dropped,
		"503 Service Unavailable": limiter.Ignored, "404 Not Found": limiter.Success, "200 OK": limiter.Success,
	} {
		backend := serveRaw(t, always("HTTP/1.1 "+answer+"\r\nContent-Length: 0\r\n\r\n"))
		g := start(t, backend, limiter.Policy{}, httpgate.Options{OverloadStatus: []int{429, 529}})
		get(t, g.url)
		if e := g.ends.wait(t); e.outcome != want {
			t.Errorf("%s: outcome %v, want %v", answer, e.outcome, want)
		}
	}
}
