package httpgate_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/labels"
)

// The first of header, query and urgency that says anything counts; rules are
// spelled like other operations. A rule that lowers holds however the path is
// written: /%72eports went before the others, as it was read in two ways.
func TestClassOfRequest(t *testing.T) {
	o := httpgate.Options{Classes: &ingress.Classes{
		By: []string{"header:X-Class", "query:class", "priority"}, Default: labels.Critical,
		Trust: ingress.Trust{Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Rules: []ingress.ClassRule{
			{Operations: []string{"GET /health"}, Class: labels.ExemptClass},
			{Operations: []string{"/reports/*", "GET /nightly"}, Class: labels.Sheddable},
		},
	}}
	identify, err := httpgate.Identify(o)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		target, from string
		headers      map[string]string
		want         labels.Class
		exempt       bool
		unclear      bool
	}{
		"nothing":                   {want: labels.Critical},
		"a header":                  {headers: map[string]string{"X-Class": "sheddable"}, want: labels.Sheddable},
		"no such class":             {headers: map[string]string{"X-Class": "urgent"}, want: labels.Critical, unclear: true},
		"from who is trusted":       {from: "10.1.1.1:80", headers: map[string]string{"X-Class": "critical-plus"}, want: labels.CriticalPlus},
		"from anybody":              {headers: map[string]string{"X-Class": "critical-plus"}, want: labels.Critical},
		"a query":                   {target: "/?class=sheddable-plus", want: labels.SheddablePlus},
		"usual urgency":             {headers: map[string]string{"Priority": "u=3, i"}, want: labels.Critical},
		"low urgency":               {headers: map[string]string{"Priority": "i, u=6"}, want: labels.Sheddable},
		"no urgency":                {headers: map[string]string{"Priority": "u=9"}, want: labels.Critical},
		"a rule":                    {target: "/reports/2026", want: labels.Sheddable},
		"an exempt one":             {target: "/health", want: labels.ExemptClass, exempt: true},
		"an ambiguous path is not":  {target: "/x/../health", want: labels.Critical},
		"a slash at its end is not": {target: "/health/", want: labels.Critical},
		"a rule, and an escape":     {target: "/%72eports/2026", want: labels.Sheddable},
		"a rule, escaped twice":     {target: "/%2572eports/2026", want: labels.Sheddable},
		"a rule, and a detour":      {target: "/x/../reports/2026", want: labels.Sheddable},
		"a rule, and two slashes":   {target: "//reports//2026", want: labels.Sheddable},
		"a rule, and a parameter":   {target: "/reports;x=y/2026", want: labels.Sheddable},
		"a rule, and its way out":   {target: "/reports/../x", want: labels.Sheddable},
		"a rule, escaped slash":     {target: "/reports%2f2026", want: labels.Sheddable},
		"a rule, and a slash more":  {target: "/nightly/", want: labels.Sheddable},
		"not in any reading":        {target: "/report%73x/2026", want: labels.Critical},
	} {
		t.Run(name, func(t *testing.T) {
			target, from := tc.target, tc.from
			if target == "" {
				target = "/"
			}
			if from == "" {
				from = "192.0.2.1:1234"
			}
			r := httptest.NewRequest(http.MethodGet, target, nil)
			r.RemoteAddr = from
			for k, v := range tc.headers {
				r.Header.Set(k, v)
			}
			if req := identify(r); req.Class != tc.want || req.Exempt != tc.exempt || req.Unclear != tc.unclear {
				t.Errorf("class %v, exempt %v, unclear %v; want %v, %v, %v", req.Class, req.Exempt, req.Unclear, tc.want, tc.exempt, tc.unclear)
			}
		})
	}
	o.Classes = &ingress.Classes{By: []string{"cookie:x"}}
	if _, err := httpgate.Identify(o); err == nil {
		t.Error("classes.by cookie:x is taken; want an error")
	}
}

// Calls of gRPC carry their deadline in a header of their own.
func TestDeadlineOfGRPC(t *testing.T) {
	identify, err := httpgate.Identify(httpgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]time.Duration{
		"250m": 250 * time.Millisecond, "3S": 3 * time.Second, "1H": time.Hour, "99999999H": 24 * time.Hour,
		"100u": 100 * time.Microsecond, "7n": 7, "": 0, "m": 0, "-5m": 0, "5x": 0, "123456789m": 0,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Grpc-Timeout", text)
		if req := identify(r); req.Deadline != want || req.MaxWait != want {
			t.Errorf("grpc-timeout %q: deadline %v, wait %v; want %v", text, req.Deadline, req.MaxWait, want)
		}
	}
}
