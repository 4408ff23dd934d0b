package httpgate_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

func TestIdentify(t *testing.T) {
	o := httpgate.Options{
		Named: []string{"Bearer gold", "free-*"},
		Exempt: httpgate.Exempt{
			CIDRs:        []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
			Applications: []string{"kube-probe/"},
			Operations:   []string{"GET /health", "/internal/*"},
		},
		CostHeader: "x-cost",
		Costs:      []httpgate.Cost{{Operation: "POST /bulk/{kind}", Tokens: 10}, {Operation: "/bulk/*", Tokens: 3}, {Operation: "GET /report", Tokens: 50}, {Operation: "GET /page", Tokens: 9}, {Operation: "HEAD /page", Tokens: 2}},
	}
	long := strings.Repeat("k", 300)
	for name, tc := range map[string]struct {
		by      []string
		request string // method, target
		from    string
		headers map[string]string
		want    limiter.Request
	}{
		"header":             {by: []string{"header:x-tenant"}, headers: map[string]string{"X-Tenant": "acme"}, want: limiter.Request{Key: "acme", Cost: 1}},
		"header missing":     {by: []string{"header:x-tenant"}, want: limiter.Request{Cost: 1}},
		"a combination":      {by: []string{"query:t", "client"}, from: "[2001:DB9::1]:5", request: "GET /?t=x", want: limiter.Request{Key: "x/2001:DB9::1", Cost: 1}},
		"half a combination": {by: []string{"header:x-tenant", "constant:all"}, want: limiter.Request{Key: "/all", Cost: 1}},
		"nothing of two":     {by: []string{"header:x-tenant", "query:t"}, want: limiter.Request{Cost: 1}},
		// Tokens of clients stood in the status, in logs and in snapshots.
		"a secret":            {by: []string{"header:Authorization"}, headers: map[string]string{"Authorization": "Bearer geheim"}, want: limiter.Request{Key: "sha256:94f89a3be2a8f5d9", Cost: 1}},
		"a secret named":      {by: []string{"header:Authorization"}, headers: map[string]string{"Authorization": "Bearer gold"}, want: limiter.Request{Key: "Bearer gold", Cost: 1}},
		"secrets named":       {by: []string{"header:X-Auth-Token"}, headers: map[string]string{"X-Auth-Token": "free-7"}, want: limiter.Request{Key: "free-7", Cost: 1}},
		"a secret missing":    {by: []string{"header:Cookie"}, want: limiter.Request{Cost: 1}},
		"a secret and a key":  {by: []string{"header:X-Tenant", "query:api_key"}, request: "GET /?api_key=Bearer%20geheim", headers: map[string]string{"X-Tenant": "acme"}, want: limiter.Request{Key: "acme/sha256:94f89a3be2a8f5d9", Cost: 1}},
		"a long secret":       {by: []string{"header:X-Api-Key"}, headers: map[string]string{"X-Api-Key": long}, want: limiter.Request{Key: "sha256:17b16d8ef494060f", Cost: 1}},
		"query":               {by: []string{"query:t"}, request: "GET /?a=1&t=x%20y&t=z", want: limiter.Request{Key: "x y", Cost: 1}},
		"query missing":       {by: []string{"query:t"}, request: "GET /?tt=1", want: limiter.Request{Cost: 1}},
		"path":                {by: []string{"path"}, request: "GET /a/b?c", want: limiter.Request{Key: "/a/b", Cost: 1}},
		"path pattern":        {by: []string{"path:/t/{tenant}/*"}, request: "GET /t/acme/x/y", want: limiter.Request{Key: "acme", Cost: 1}},
		"path two parameters": {by: []string{"path:/t/{a}/{b}"}, request: "GET /t/acme/x", want: limiter.Request{Key: "acme/x", Cost: 1}},
		"path no parameter":   {by: []string{"path:/static/*"}, request: "GET /static/x", want: limiter.Request{Key: "/static/*", Cost: 1}},
		"path no match":       {by: []string{"path:/t/{tenant}"}, request: "GET /u/acme", want: limiter.Request{Cost: 1}},
		// net/http keeps the host elsewhere than in the headers, and every host was "default".
		"host":              {by: []string{"header:host"}, request: "GET http://Acme.Example.:8080/", want: limiter.Request{Key: "acme.example", Cost: 1}},
		"host, IPv6":        {by: []string{"header:Host"}, request: "GET http://[2001:DB8::1]:80/", want: limiter.Request{Key: "[2001:db8::1]", Cost: 1}},
		"network":           {by: []string{"client:24"}, want: limiter.Request{Key: "192.0.2.0/24", Cost: 1}},
		"network of IPv6":   {by: []string{"client:32"}, from: "[2001:db8:1:2:3::4]:5", want: limiter.Request{Key: "2001:db8:1:2::/64", Cost: 1, Exempt: true}},
		"subnet of IPv6":    {by: []string{"client:56"}, from: "[2001:db8:1:2ff:3::4]:5", want: limiter.Request{Key: "2001:db8:1:200::/56", Cost: 1, Exempt: true}},
		"IPv4 beside it":    {by: []string{"client:56"}, want: limiter.Request{Key: "192.0.2.1/32", Cost: 1}},
		"IPv4 in IPv6":      {by: []string{"client:56"}, from: "[::ffff:192.0.2.1]:5", want: limiter.Request{Key: "192.0.2.1/32", Cost: 1}},
		"network of no one": {by: []string{"client:32"}, from: "unknown:0", want: limiter.Request{Key: "unknown", Cost: 1}},
		// Each spelling of a path was a partition of its own, with a limit of its own.
		"path by parameter": {by: []string{"path:/t/{tenant}/*"}, request: "GET /t/acme;7/o", want: limiter.Request{Key: "acme", Cost: 1}},
		"path by escape":    {by: []string{"path:/t/{tenant}/*"}, request: "GET /t/acm%2565%3b1/o", want: limiter.Request{Key: "acme", Cost: 1}},
		"path by detour":    {by: []string{"path:/t/{tenant}/*"}, request: "GET /t/x/..;/acme/o", want: limiter.Request{Key: "acme", Cost: 1}},
		"path from outside": {by: []string{"path:/t/{tenant}/*"}, request: "GET /x/..;/t/acme/o", want: limiter.Request{Key: "acme", Cost: 1}},
		"path by case":      {by: []string{"path:/t/{tenant}/*"}, request: "GET /T/Acme/o", want: limiter.Request{Key: "Acme", Cost: 1}},
		"path by slash":     {by: []string{"path:/t/{tenant}"}, request: "GET /t/acme/", want: limiter.Request{Key: "acme", Cost: 1}},
		"path too short":    {by: []string{"path:/t/{tenant}/x"}, request: "GET /t/acme", want: limiter.Request{Cost: 1}},
		"path too long":     {by: []string{"path:/t/{tenant}"}, request: "GET /t/acme/x", want: limiter.Request{Cost: 1}},
		"path without one":  {by: []string{"path:/t/{tenant}/*"}, request: "GET /t//", want: limiter.Request{Cost: 1}},
		"whole path":        {by: []string{"path"}, request: "GET /a;1/%2562/", want: limiter.Request{Key: "/a/b/", Cost: 1}},
		// Frameworks answer HEAD by what answers GET, and some take any case.
		"exempt HEAD":        {request: "HEAD /health", want: limiter.Request{Cost: 1, Exempt: true}},
		"not in lower case":  {request: "get /health", want: limiter.Request{Cost: 1}},
		"not by case":        {request: "GET /Health", want: limiter.Request{Cost: 1}},
		"cost of HEAD":       {request: "HEAD /report", want: limiter.Request{Cost: 50}},
		"cost in lower":      {request: "get /report", want: limiter.Request{Cost: 50}},
		"cost by case":       {request: "GET /rePort", want: limiter.Request{Cost: 50}},
		"cost of HEAD's own": {request: "HEAD /page", want: limiter.Request{Cost: 2}},
		"cost of any method": {request: "PROPFIND /bulk/a", want: limiter.Request{Cost: 3}},
		"cost by both":       {request: "post /Bulk/A", want: limiter.Request{Cost: 10}},
		"long key":           {by: []string{"header:x-tenant"}, headers: map[string]string{"X-Tenant": long}, want: limiter.Request{Key: "sha256:17b16d8ef494060fefa36a6a41567b8c32d213a17e02b7eeae86158cc4495461", Cost: 1}},
		"exempt CIDR":        {from: "10.1.1.1:2", want: limiter.Request{Cost: 1, Exempt: true}},
		"exempt CIDR 6":      {from: "[2001:db8::7]:2", want: limiter.Request{Cost: 1, Exempt: true}},
		"exempt agent":       {headers: map[string]string{"User-Agent": "kube-probe/1.30"}, want: limiter.Request{Cost: 1, Exempt: true}},
		"application first":  {headers: map[string]string{"User-Agent": "kube-probe/1.30", "X-Application": "shop"}, want: limiter.Request{Cost: 1}},
		"exempt operation":   {request: "GET /health", want: limiter.Request{Cost: 1, Exempt: true}},
		"other method":       {request: "POST /health", want: limiter.Request{Cost: 1}},
		"any method":         {request: "PUT /internal/a/b", want: limiter.Request{Cost: 1, Exempt: true}},
		"not by detour":      {request: "GET /internal/../orders", want: limiter.Request{Cost: 1}},
		"not by escape":      {request: "GET /internal/%2e%2e/orders", want: limiter.Request{Cost: 1}},
		"cost header":        {headers: map[string]string{"X-Cost": "2.5"}, want: limiter.Request{Cost: 2.5}},
		"cost nonsense":      {headers: map[string]string{"X-Cost": "-1"}, want: limiter.Request{Cost: 1}},
		"cost not a number":  {headers: map[string]string{"X-Cost": "NaN"}, want: limiter.Request{Cost: 1}},
		"cost operation":     {request: "POST /bulk/write", want: limiter.Request{Cost: 10}},
		"cost wildcard":      {request: "GET /bulk/a/b", want: limiter.Request{Cost: 3}},
		"deadline":           {headers: map[string]string{"X-Admitd-Deadline-Ms": "250"}, want: limiter.Request{Cost: 1, MaxWait: 250 * time.Millisecond, Deadline: 250 * time.Millisecond}},
		"deadline nonsense":  {headers: map[string]string{"X-Admitd-Deadline-Ms": "soon"}, want: limiter.Request{Cost: 1}},
		"deadline zero":      {headers: map[string]string{"X-Admitd-Deadline-Ms": "0"}, want: limiter.Request{Cost: 1}},
		"deadline absurd":    {headers: map[string]string{"X-Admitd-Deadline-Ms": "9223372036854775807"}, want: limiter.Request{Cost: 1, MaxWait: 24 * time.Hour, Deadline: 24 * time.Hour}},
	} {
		o.By = tc.by
		identify, err := httpgate.Identify(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		method, target, ok := strings.Cut(tc.request, " ")
		if !ok {
			method, target = "GET", "/"
		}
		r := httptest.NewRequest(method, target, http.NoBody)
		if r.RemoteAddr = tc.from; tc.from == "" {
			r.RemoteAddr = "192.0.2.1:1234"
		}
		for k, v := range tc.headers {
			r.Header.Set(k, v)
		}
		if diff := cmp.Diff(tc.want, identify(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Every option that is wrong is named at once.
func TestNewErrors(t *testing.T) {
	gate := limiter.New("x", &limiter.Policy{}, limiter.Options{})
	_, err := httpgate.New(gate, httpgate.Options{
		Backend: "ftp://a", By: []string{"cookie:x", "path:/a/{"}, Status: 500,
		Exempt: httpgate.Exempt{Operations: []string{"GET health", "FETCH /a"}},
		Costs:  []httpgate.Cost{{Operation: "/a", Tokens: math.Inf(1)}},
	})
	if err == nil {
		t.Fatal("New accepted nonsense")
	}
	for _, part := range []string{`"ftp://a"`, `"cookie:x"`, `"/a/{"`, "(500)", `"GET health"`, `"FETCH /a"`, "(+Inf)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not name %s:\n%v", part, err)
		}
	}
}

// A request of which neither a header nor an operation tells spends the default
// cost. The option did not exist once, and what cost.default said was lost.
func TestDefaultCost(t *testing.T) {
	identify, err := httpgate.Identify(httpgate.Options{DefaultCost: 7, CostHeader: "X-Cost", Costs: []httpgate.Cost{{Operation: "/known", Tokens: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]float64{"/known": 3, "/unknown": 7, "//unknown": 7} {
		r := httptest.NewRequest(http.MethodGet, "http://h"+target, nil)
		if got := identify(r).Cost; got != want {
			t.Errorf("cost of %s = %v; want %v", target, got, want)
		}
	}
	if _, err := httpgate.New(limiter.New("g", &limiter.Policy{}, limiter.Options{}), httpgate.Options{Backend: "http://127.0.0.1:1", DefaultCost: -1}); err == nil {
		t.Error("a negative default cost was accepted")
	}
}

// Who overrides a key may name it by the secret or by what is shown of it.
func TestShownKey(t *testing.T) {
	for _, tc := range []struct{ by, key, want string }{
		{"header:Authorization", "Bearer geheim", "sha256:94f89a3be2a8f5d9"},
		{"header:Authorization", "sha256:94f89a3be2a8f5d9", "sha256:94f89a3be2a8f5d9"},
		{"header:Authorization", "Bearer gold", "Bearer gold"},
		{"header:Authorization", "free-7", "free-7"},
		{"header:X-Tenant", "Bearer geheim", "Bearer geheim"},
		{"header:X-Tenant query:api_key", "acme/Bearer geheim", "acme/sha256:94f89a3be2a8f5d9"},
		{"header:X-Tenant query:api_key", "Bearer geheim", "Bearer geheim"},
		{"client query:access_token", "192.0.2.1/", "192.0.2.1/"},
	} {
		o := httpgate.Options{By: strings.Fields(tc.by), Named: []string{"Bearer gold", "free-*"}}
		if got := httpgate.ShownKey(&o, tc.key); got != tc.want {
			t.Errorf("by %s: %q is shown as %q, want %q", tc.by, tc.key, got, tc.want)
		}
	}
}

// Identification allocates nothing.
func TestIdentifyAllocatesNothing(t *testing.T) {
	identify, err := httpgate.Identify(httpgate.Options{
		By:     []string{"query:tenant"},
		Exempt: httpgate.Exempt{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Operations: []string{"/health"}, Applications: []string{"probe"}},
		Costs:  []httpgate.Cost{{Operation: "POST /bulk", Tokens: 5}}, CostHeader: "X-Cost",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/orders/1?tenant=acme", http.NoBody)
	r.Header.Set("X-Admitd-Deadline-Ms", "100")
	if n := testing.AllocsPerRun(100, func() { identify(r) }); n != 0 {
		t.Errorf("%v allocations per request, want 0", n)
	}
}

// Whatever a request says, the key is bounded and the numbers are sane.
func FuzzIdentify(f *testing.F) {
	f.Add("acme", "t=1&u=%zz", "/a/../b", "1e3", "100", "10.0.0.1:1")
	f.Add("", "", "//reports/all", "", "", "")
	f.Add("", "", "/internal/..;/x", "", "", "")
	f.Add(strings.Repeat("x", 400), "", "/internal//", "NaN", "-1", "[::1]")
	identify, err := httpgate.Identify(httpgate.Options{
		By:         []string{"query:u", "path:/t/{id}/*", "header:X-Tenant", "client"},
		Exempt:     httpgate.Exempt{Operations: []string{"/internal/*"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		CostHeader: "X-Cost", Costs: []httpgate.Cost{{Operation: "/reports/all", Tokens: 50}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tenant, query, path, cost, deadline, from string) {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.URL.Path, r.URL.RawQuery, r.RemoteAddr = path, query, from
		r.Header["X-Tenant"], r.Header["X-Cost"], r.Header["X-Admitd-Deadline-Ms"] = []string{tenant}, []string{cost}, []string{deadline}
		got := identify(r)
		if len(got.Key) > 256 || !(got.Cost > 0) || got.Cost > 1e9 || got.MaxWait < 0 || got.MaxWait > 24*time.Hour {
			t.Errorf("out of bounds: %+v", got)
		}
		if got.Exempt && (!strings.HasPrefix(path, "/internal/") || strings.ContainsAny(path, "%;\\\x00") || strings.Contains(path, "/.") ||
			strings.Contains(path, "//")) && !strings.HasPrefix(from, "10.") {
			t.Errorf("path %q is exempt", path)
		}
		if want := float64(50); query == "" && cost == "" && strings.Trim(path, "/") == "reports/all" && got.Cost != want {
			t.Errorf("path %q costs %v, want %v", path, got.Cost, want)
		}
	})
}
