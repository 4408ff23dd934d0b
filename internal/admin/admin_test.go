package admin_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// daemon stands in for the program: one HTTP ingress with one gate.
type daemon struct {
	gate      *limiter.Gate
	health    admin.Health
	patched   []admin.Patch
	reloadErr error
	patchErr  error
	snapshots atomic.Int64
}

func newDaemon(p *limiter.Policy) *daemon {
	return &daemon{
		gate: limiter.New("orders", p, limiter.Options{}), health: admin.Health{Listening: true},
	}
}

func (d *daemon) Health() admin.Health { return d.health }

func (d *daemon) Snapshot(only string, o limiter.StatusOptions) statusdoc.Snapshot {
	d.snapshots.Add(1)
	if only != "" && only != "orders" {
		return statusdoc.Snapshot{}
	}
	return statusdoc.Snapshot{
		Version: "1.2.3", Started: time.Now().Add(-time.Minute), Clock: status.Clock{Trusted: true},
		Config: status.Config{LastSuccessful: true},
		Ingresses: []statusdoc.Ingress{{
			Name: "orders", Protocol: "http", Listen: "127.0.0.1:8462", Backend: "http://127.0.0.1:9000",
			Gate: d.gate.Page(o), Glances: d.gate.Briefs(), Rows: d.gate.Rows, Connections: &ingress.Status{Open: 3, MaxOpen: 10, Refused: []uint64{0, 2}, Tokens: 1},
		}},
	}
}

func (*daemon) Config() any { return map[string]string{"token": "redacted"} }

func (d *daemon) Reload(context.Context, string) ([]admin.Move, error) { return nil, d.reloadErr }

func (*daemon) Ingress(name string) (any, error) {
	if name != "orders" {
		return nil, admin.ErrUnknownIngress
	}
	return map[string]any{"mode": "enforce"}, nil
}

func (d *daemon) Patch(_ context.Context, name string, p admin.Patch) (before, after any, err error) {
	if name != "orders" {
		return nil, nil, admin.ErrUnknownIngress
	}
	if d.patchErr != nil {
		return nil, nil, d.patchErr
	}
	d.patched = append(d.patched, p)
	return map[string]int{"rate": 1}, map[string]int{"rate": 2}, nil
}

func (*daemon) Changes() []admin.Change {
	return []admin.Change{{Ingress: "orders", Path: []string{"requests", "rate"}, File: 5.0, Now: 9.0}}
}

// constant is a limit that learns nothing.
type constant int

func (c constant) Current() int                          { return int(c) }
func (constant) Observe(int64, time.Duration, int, bool) {}

func fixedAt(n int) *limiter.Policy {
	return &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return constant(n) }}}
}

// newServer returns a server over d with what o adds.
func newServer(t *testing.T, d *daemon, o admin.Options) *admin.Server {
	t.Helper()
	o.State, o.Settings = d, d
	s := admin.New(o)
	t.Cleanup(s.Close)
	return s
}

// call is one request and what came back.
type call struct {
	method, path, body string
	header             map[string]string
	host               string // "" = localhost:9462
}

func (c call) do(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	var body io.Reader = http.NoBody
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, body)
	req.Host = "localhost:9462"
	if c.host != "" {
		req.Host = c.host
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	return v
}

// Who may do what: reading is open, changing asks for the token, profiles exist
// only behind one, and browsers are kept from acting for other sites.
func TestWhoMay(t *testing.T) {
	const off = `{"mode":"off"}`
	bearer := map[string]string{"Authorization": "Bearer secret"}
	for name, tc := range map[string]struct {
		o    admin.Options
		call call
		want int
	}{
		"status without token":             {admin.Options{Token: "secret"}, call{method: "GET", path: "/v1/status"}, 200},
		"status under a foreign host name": {admin.Options{}, call{method: "GET", path: "/v1/status", host: "evil.example"}, 421},
		"a name that only starts like one": {admin.Options{}, call{method: "GET", path: "/v1/status", host: "localhost.evil.example"}, 421},
		"status by loopback address":       {admin.Options{}, call{method: "GET", path: "/v1/status", host: "127.0.0.1:9462"}, 200},
		"status by IPv6 loopback":          {admin.Options{}, call{method: "GET", path: "/v1/status", host: "[::1]:9462"}, 200},
		// A token once opened reads to every name, and so to every web page.
		"a foreign name where a token is set": {admin.Options{Token: "secret"}, call{method: "GET", path: "/v1/status", host: "gate.example"}, 421},
		"any host name with the token":        {admin.Options{Token: "secret"}, call{method: "GET", path: "/v1/status", host: "gate.example", header: bearer}, 200},
		"an address where a token is set":     {admin.Options{Token: "secret"}, call{method: "GET", path: "/v1/status", host: "10.0.0.7:9462"}, 200},
		"this machine's name, a token is set": {admin.Options{Token: "secret", Hostname: "gate-7"}, call{method: "GET", path: "/metrics", host: "gate-7:9462"}, 404},
		"reads for the token only":            {admin.Options{Token: "secret", ReadsNeedToken: true}, call{method: "GET", path: "/v1/config"}, 401},
		"reads with the token":                {admin.Options{Token: "secret", ReadsNeedToken: true}, call{method: "GET", path: "/v1/config", header: bearer}, 200},
		"health for everybody":                {admin.Options{Token: "secret", ReadsNeedToken: true}, call{method: "GET", path: "/healthz"}, 200},
		"reads, but there is no token":        {admin.Options{ReadsNeedToken: true}, call{method: "GET", path: "/v1/config"}, 200},
		"any host name when insecure":         {admin.Options{Insecure: true}, call{method: "GET", path: "/v1/status", host: "gate.example"}, 200},

		"reload, no token asked for": {admin.Options{}, call{method: "POST", path: "/v1/reload"}, 200},
		"reload without the token":   {admin.Options{Token: "secret"}, call{method: "POST", path: "/v1/reload"}, 401},
		"reload with the token":      {admin.Options{Token: "secret"}, call{method: "POST", path: "/v1/reload", header: bearer}, 200},
		"reload with a wrong token":  {admin.Options{Token: "other"}, call{method: "POST", path: "/v1/reload", header: bearer}, 401},
		"reload with a prefix of it": {admin.Options{Token: "secrets"}, call{method: "POST", path: "/v1/reload", header: bearer}, 401},
		"the token by another scheme": {
			admin.Options{Token: "secret"},
			call{method: "POST", path: "/v1/reload", header: map[string]string{"Authorization": "Basic secret"}},
			401,
		},
		"patch without the token": {admin.Options{Token: "secret"}, call{method: "PATCH", path: "/v1/ingresses/orders", body: off}, 401},

		"from another site": {
			admin.Options{},
			call{method: "POST", path: "/v1/reload", header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
			403,
		},
		"from another origin": {
			admin.Options{},
			call{method: "POST", path: "/v1/tuner/freeze", header: map[string]string{"Origin": "https://evil.example"}},
			403,
		},
		"from the live page": {
			admin.Options{},
			call{method: "POST", path: "/v1/reload", header: map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:9462"}},
			200,
		},
		"a body like a form's": {
			admin.Options{},
			call{method: "PATCH", path: "/v1/ingresses/orders", body: off, header: map[string]string{"Content-Type": "text/plain"}},
			415,
		},

		"profiles without a token set": {admin.Options{}, call{method: "GET", path: "/debug/pprof/"}, 403},
		"profiles without the token":   {admin.Options{Token: "secret"}, call{method: "GET", path: "/debug/pprof/heap"}, 401},
		"profiles with the token":      {admin.Options{Token: "secret"}, call{method: "GET", path: "/debug/pprof/heap", header: bearer}, 200},

		"a body beyond the bound": {
			admin.Options{},
			call{method: "PATCH", path: "/v1/ingresses/orders", body: `{"mode":"` + strings.Repeat("x", 70<<10) + `"}`},
			413,
		},
		"no such path":     {admin.Options{}, call{method: "GET", path: "/v1/nothing"}, 404},
		"no such method":   {admin.Options{}, call{method: "PUT", path: "/v1/reload"}, 405},
		"no metrics given": {admin.Options{}, call{method: "GET", path: "/metrics"}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, newDaemon(&limiter.Policy{}), tc.o)
			if w := tc.call.do(t, s); w.Code != tc.want {
				t.Errorf("%s %s = %d %s; want %d", tc.call.method, tc.call.path, w.Code, w.Body, tc.want)
			}
		})
	}
}

// Who uses a wrong method is told the right ones, also where the live page would be
// looked for: GET /v1/reload was "no such path".
func TestWrongMethods(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{})
	for c, want := range map[[2]string]string{
		{"GET", "/v1/reload"}:                     "POST",
		{"PUT", "/v1/reload"}:                     "POST",
		{"DELETE", "/v1/status"}:                  "GET",
		{"PUT", "/v1/ingresses/orders"}:           "GET, PATCH",
		{"POST", "/v1/ingresses/a/overrides/1"}:   "DELETE",
		{"GET", "/v1/shadow/wider/promote"}:       "POST",
		{"GET", "/v1/shadow/wi%2Fder/promote"}:    "POST",
		{"FOO", "/v1/reload"}:                     "POST",
		{"GET", "/v1/nothing"}:                    "",
		{"GET", "/v1/ingresses/orders/overrides"}: "none", // it is there
	} {
		w := (call{method: c[0], path: c[1]}).do(t, s)
		switch allow := w.Header().Get("Allow"); {
		case want == "none":
			if w.Code == http.StatusMethodNotAllowed {
				t.Errorf("%v = %d; want an answer", c, w.Code)
			}
		case want == "" && (w.Code != http.StatusNotFound || allow != ""), want != "" && (w.Code != http.StatusMethodNotAllowed || allow != want):
			t.Errorf("%v = %d, Allow %q; want %q", c, w.Code, allow, want)
		}
	}
}

// A token can be replaced while the server runs.
func TestSetToken(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{Token: "old"})
	if err := s.SetToken("new"); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"old": 401, "new": 200} {
		c := call{method: "POST", path: "/v1/reload", header: map[string]string{"Authorization": "bearer " + token}}
		if w := c.do(t, s); w.Code != want {
			t.Errorf("reload with %q = %d; want %d", token, w.Code, want)
		}
	}
}

// The status lists every reason with its words, so that the live page needs no
// list of its own, which was one to forget.
func TestStatusListsEveryReason(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{})
	got := decode[status.Document](t, (call{method: "GET", path: "/v1/status"}).do(t, s)).Reasons
	var want []status.Reason
	for _, r := range labels.Reasons() {
		want = append(want, status.Reason{Name: string(r), Words: strings.ReplaceAll(string(r), "_", " ")})
		page := (call{method: "GET", path: "/format.js"}).do(t, s).Body.String()
		if strings.Contains(page, string(r)) {
			t.Errorf("format.js names the reason %s", r)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
}

// Ready means listening and not draining; the details are shown either way.
func TestHealth(t *testing.T) {
	d := newDaemon(&limiter.Policy{})
	s := newServer(t, d, admin.Options{})
	for _, tc := range []struct {
		health admin.Health
		code   int
		status string
	}{
		{admin.Health{Listening: true, Detail: []string{"last reload was refused"}}, 200, "ready"},
		{admin.Health{Listening: false}, 503, "starting"},
		{admin.Health{Listening: true, Draining: true}, 503, "draining"},
	} {
		d.health = tc.health
		w := call{method: "GET", path: "/readyz"}.do(t, s)
		got := decode[struct {
			Status string
			Detail []string
		}](t, w)
		if w.Code != tc.code || got.Status != tc.status || !slices.Equal(got.Detail, tc.health.Detail) {
			t.Errorf("readyz with %+v = %d %+v; want %d %s", tc.health, w.Code, got, tc.code, tc.status)
		}
		if w := (call{method: "GET", path: "/healthz"}).do(t, s); w.Code != 200 {
			t.Errorf("healthz = %d; want 200 as long as the process lives", w.Code)
		}
	}
}

// Status shows every part that the contract names.
func TestStatus(t *testing.T) {
	d := newDaemon(&limiter.Policy{
		Rate:  limiter.Rate{PerSecond: 10, BurstSeconds: 2},
		Named: []limiter.PartitionPolicy{{Name: "checkout"}},
	})
	s := newServer(t, d, admin.Options{})
	permit, err := d.gate.Admit(t.Context(), limiter.Request{Key: "checkout"})
	if err != nil {
		t.Fatalf("Admit: %v", err)
	}
	defer permit.End(limiter.Success)
	type partition struct {
		Name, Algorithm         string
		Limit, InFlight, Queued int
		Fallback                bool
		Counts                  struct{ Received, Admitted uint64 }
	}
	got := decode[struct {
		Version   string
		Ingresses []struct {
			Name, Protocol, Mode string
			InFlight             int
			Requests             struct{ Rate, Burst, Tokens float64 }
			Connections          struct {
				Open     int
				Rejected map[string]int
			}
			PartitionCount int
			Partitions     []partition
		}
	}](t, call{method: "GET", path: "/v1/status"}.do(t, s))
	if got.Version != "1.2.3" || len(got.Ingresses) != 1 {
		t.Fatalf("status = %+v; want one ingress of version 1.2.3", got)
	}
	in := got.Ingresses[0]
	if in.Name != "orders" || in.Protocol != "http" || in.Mode != "enforce" || in.InFlight != 1 || in.PartitionCount != 3 ||
		in.Requests.Rate != 10 || in.Requests.Burst != 20 || in.Requests.Tokens >= 20 ||
		in.Connections.Open != 3 || in.Connections.Rejected["max_open"] != 2 {
		t.Errorf("ingress = %+v", in)
	}
	want := partition{Name: "checkout", Algorithm: "fixed", Limit: 20, InFlight: 1}
	want.Counts.Received, want.Counts.Admitted = 1, 1
	if in.Partitions[0] != want {
		t.Errorf("partition = %+v; want %+v", in.Partitions[0], want)
	}
	for query, code := range map[string]int{"?ingress=orders&partitions=1": 200, "?ingress=nobody": 404, "?partitions=-1": 400, "?partitions=x": 400} {
		w := call{method: "GET", path: "/v1/status" + query}.do(t, s)
		if w.Code != code {
			t.Errorf("status%s = %d; want %d", query, w.Code, code)
		}
	}
	// Those of the configuration are always on the first page, but for 0.
	for query, want := range map[string]int{"?partitions=1": 3, "?partitions=0": 0, "?partitions=1&after=a": 0} {
		w := call{method: "GET", path: "/v1/status" + query}.do(t, s)
		if got := strings.Count(w.Body.String(), `"algorithm"`); got != want {
			t.Errorf("status%s lists %d partitions; want %d: %s", query, got, want, w.Body)
		}
	}
}

// Settings that do not hold are refused with every problem, and an unknown key
// is a problem too.
func TestSettings(t *testing.T) {
	d := newDaemon(&limiter.Policy{})
	s := newServer(t, d, admin.Options{})
	type refusal struct{ Problems []string }

	d.reloadErr = &admin.Invalid{Problems: []string{"a.yaml:1: x", "a.yaml:2: y"}}
	w := call{method: "POST", path: "/v1/reload"}.do(t, s)
	if got := decode[refusal](t, w); w.Code != 400 || len(got.Problems) != 2 {
		t.Errorf("invalid reload = %d %+v; want 400 with both problems", w.Code, got)
	}

	w = call{method: "PATCH", path: "/v1/ingresses/orders", body: `{"requests":{"rate":5},"connections":{"rate":"unlimited"},"partitions":{"named":{"a":{"limit":{"maxLimit":7}}}}}`}.do(t, s)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"before":{"rate":1},"after":{"rate":2}`) {
		t.Errorf("patch = %d %s; want 200 with before and after", w.Code, w.Body)
	}
	if got, want := string(d.patched[0].Settings), `{"connections":{"rate":"unlimited"},"partitions":{"named":{"a":{"limit":{"maxLimit":7}}}},"requests":{"rate":5}}`; got != want {
		t.Errorf("patch as the daemon gets it = %s; want %s", got, want)
	}
	for _, body := range []string{
		`{} {}`, `[]`, ``, `{"mode":"off"`, `{"overrides":{"a":{"rate":1}},"mode":"off"}`, `{"overrides":[]}`, `{"overrides":{"a":{"rat":1}}}`,
		`{"after":[]}`, `{"after":null,"id":"1"}`, `{"after":1}`, `{"id":"1","after":{"kee":"a"}}`,
	} {
		if w := (call{method: "PATCH", path: "/v1/ingresses/orders", body: body}).do(t, s); w.Code != 400 {
			t.Errorf("patch %q = %d; want 400", body, w.Code)
		}
	}
	if w := (call{method: "PATCH", path: "/v1/ingresses/nobody", body: `{}`}).do(t, s); w.Code != 404 {
		t.Errorf("patch of an unknown ingress = %d; want 404", w.Code)
	}
	d.patchErr = &admin.Invalid{Problems: []string{"requests.rate: -1"}}
	if w := (call{method: "PATCH", path: "/v1/ingresses/orders", body: `{"requests":{"rate":-1}}`}).do(t, s); w.Code != 400 {
		t.Errorf("invalid patch = %d; want 400", w.Code)
	}
	if len(d.patched) != 1 {
		t.Errorf("%d patches reached the daemon; want 1", len(d.patched))
	}
}

// Every answer tells browsers to load nothing from elsewhere; the page and its
// files are there, listings are not.
func TestPage(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{
		Hello: func() (labels.Hello, bool) { return labels.Hello{Name: "orders"}, true },
	})
	for path, want := range map[string]string{
		"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css", "/v1/hello": "application/json",
	} {
		w := call{method: "GET", path: path}.do(t, s)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(got, want) {
			t.Errorf("GET %s = %d %s; want 200 %s", path, w.Code, got, want)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("GET %s: policy %q lets foreign or inline code in", path, policy)
		}
	}
	for _, path := range []string{"/../admin.go", "/page", "/./"} {
		if w := (call{method: "GET", path: path}).do(t, s); w.Code == 200 && path != "/./" {
			t.Errorf("GET %s = 200; want not found", path)
		}
	}
}
