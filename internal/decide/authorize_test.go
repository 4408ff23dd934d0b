package decide_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// What a proxy is told about the requests of its clients.
func TestAuthorize(t *testing.T) {
	rate := &limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 1000}} // one token
	for name, tc := range map[string]struct {
		policy *limiter.Policy
		query  string
		status int
		header map[string]string
	}{
		"plain":         {rate, "", 429, map[string]string{labels.HeaderReason: "request_rate", decide.HeaderStatus: "429"}},
		"marked 403":    {rate, "&deny=403", 403, map[string]string{labels.HeaderReason: "request_rate", decide.HeaderStatus: "429", "RateLimit-Policy": `"requests";q=1;w=1000`}},
		"never enough":  {rate, "&cost=5&deny=401", 401, map[string]string{labels.HeaderReason: "cost_exceeds_burst", decide.HeaderStatus: "429", "Retry-After": ""}},
		"no permit yet": {one(), "&deny=403", 204, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, newDaemon(tc.policy), 0)
			if w := (call{method: "GET", path: "/v1/authorize?ingress=orders"}).do(t, s); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
				t.Fatalf("first = %d %s; want 204", w.Code, w.Body)
			}
			w := call{method: "GET", path: "/v1/authorize?ingress=orders" + tc.query}.do(t, s)
			if w.Code != tc.status {
				t.Fatalf("second = %d %s; want %d", w.Code, w.Body, tc.status)
			}
			for key, want := range tc.header {
				if got := w.Header().Get(key); got != want {
					t.Errorf("%s = %q; want %q", key, got, want)
				}
			}
			if tc.status == 204 {
				return
			}
			if doc, err := labels.Parse(w.Body.Bytes()); err != nil || doc.Status != 429 {
				t.Errorf("body %s (%v); want the document with its true status", w.Body, err)
			}
		})
	}
}

// The ingress sees the request that the proxy has before it, not the question
// about it; what the query says goes first.
func TestAuthorizeForwards(t *testing.T) {
	for name, tc := range map[string]struct {
		query            string
		header           map[string]string
		method, uri      string
		client, host     string
		partition        string
		operation, token string
	}{
		"traefik": {
			header: map[string]string{
				"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/orders/7?x=1", "X-Forwarded-Host": "shop.example",
				"X-Forwarded-For": "203.0.113.9, 10.0.0.1", "X-Tenant": "acme", decide.HeaderToken: "secret",
			},
			method: "POST", uri: "/orders/7?x=1", client: "10.0.0.1:0", host: "shop.example",
		},
		"nginx, IPv6": {
			header: map[string]string{"X-Original-Method": "PUT", "X-Original-Uri": "/a%2Fb", "X-Forwarded-For": "2001:db8::1"},
			method: "PUT", uri: "/a%2Fb", client: "[2001:db8::1]:0", host: "example.com",
		},
		"nothing told": {query: "&partition=p&operation=o", method: "GET", uri: "/", client: "192.0.2.1:1234", host: "example.com", partition: "p", operation: "o"},
		"a port":       {header: map[string]string{"X-Forwarded-For": "192.0.2.7:40001"}, method: "GET", uri: "/", client: "192.0.2.7:0", host: "example.com"},
		"a port, IPv6": {
			header: map[string]string{"X-Forwarded-For": "x, [2001:DB8::a]:5001"}, method: "GET", uri: "/", client: "[2001:db8::a]:0", host: "example.com",
		},
		"another spelling": {header: map[string]string{"X-Forwarded-For": "::FFFF:192.0.2.7"}, method: "GET", uri: "/", client: "192.0.2.7:0", host: "example.com"},
		"no address":       {header: map[string]string{"X-Forwarded-For": "unknown"}, method: "GET", uri: "/", client: "unknown:0", host: "example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(&limiter.Policy{})
			if w := (call{method: "GET", path: "/v1/authorize?ingress=orders" + tc.query, header: tc.header}).do(t, newServer(t, d, 0)); w.Code != 204 {
				t.Fatalf("answer %d %s; want 204", w.Code, w.Body)
			}
			a := d.asks[0]
			if got := [4]string{a.HTTP.Method, a.HTTP.URL.RequestURI(), a.HTTP.RemoteAddr, a.HTTP.Host}; got != [4]string{tc.method, tc.uri, tc.client, tc.host} {
				t.Errorf("asked about %q; want %q", got, [4]string{tc.method, tc.uri, tc.client, tc.host})
			}
			if a.Partition != tc.partition || a.Operation != tc.operation || a.HTTP.Header.Get(decide.HeaderToken) != "" {
				t.Errorf("asked %+v; want partition %q, operation %q, and the token kept back", a, tc.partition, tc.operation)
			}
		})
	}
}

// A target that Go cannot read was priced as "/"; the gate answers it with 400. nginx
// knows no other status than 403, which says the true one in a header.
func TestAuthorizeRefusesWhatTheGateRefuses(t *testing.T) {
	for query, code := range map[string]int{"": 400, "&deny=403": 403} {
		for _, uri := range []string{"/export/%zz", "::", "/\x01"} {
			s := newServer(t, newDaemon(&limiter.Policy{}), 0)
			w := call{method: "GET", path: "/v1/authorize?ingress=orders" + query, header: map[string]string{"X-Original-Uri": uri}}.do(t, s)
			if w.Code != code || w.Header().Get(decide.HeaderStatus) != "400" {
				t.Errorf("authorize%s %q = %d, said to be %s; want %d for 400", query, uri, w.Code, w.Header().Get(decide.HeaderStatus), code)
			}
			if text := w.Body.String(); !strings.Contains(text, `"detail":"the request target is no URI"`) {
				t.Errorf("the body is %s; want what is wrong", text)
			}
			if _, refused := s.decider.Counts(decide.ViaAuthorize); refused != 1 {
				t.Errorf("%d refusals are counted; want 1", refused)
			}
		}
	}
}

func TestAuthorizeRefusesInput(t *testing.T) {
	s := newServer(t, newDaemon(one()), 0)
	for query, code := range map[string]int{
		"":                           400,
		"ingress=orders&deny=200":    400,
		"ingress=orders&deny=no":     400,
		"ingress=orders&cost=-1":     400,
		"ingress=orders&cost=x":      400,
		"ingress=orders&hold=0s":     400,
		"ingress=orders&hold=11m":    400,
		"ingress=orders&partitions=": 400, // a mistyped key must not be no key
		"ingress=nobody":             404,
		"ingress=orders&partition=" + strings.Repeat("x", 257): 400,
	} {
		if w := (call{method: "GET", path: "/v1/authorize?" + query}).do(t, s); w.Code != code {
			t.Errorf("authorize %.60s = %d %s; want %d", query, w.Code, w.Body, code)
		}
	}
}

// A proxy that knows the end of a request may hold its permit; one that does not
// return it teaches the limit nothing, and holds it no longer than it said.
func TestAuthorizeHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(one())
		s := newServer(t, d, 0)
		hold := call{method: "GET", path: "/v1/authorize?ingress=orders&hold=2s"}
		w := hold.do(t, s)
		id := w.Header().Get(decide.HeaderPermit)
		if w.Code != 204 || id == "" {
			t.Fatalf("hold = %d %q; want 204 and a permit", w.Code, id)
		}
		if w := hold.do(t, s); w.Code != 503 || w.Header().Get(decide.HeaderStatus) != "503" {
			t.Errorf("second = %d; want 503 while the first is held", w.Code)
		}
		if code := giveBack(t, s, id, "success"); code != 204 {
			t.Errorf("return = %d; want 204", code)
		}
		hold.do(t, s)
		<-time.After(2 * time.Second)
		synctest.Wait()
		st := d.gate.Status()
		if c := st.Labels[0].Counts; st.InFlight != 0 || c.Dropped != 0 || c.Ignored != 1 {
			t.Errorf("in flight %d, dropped %d, ignored %d; want the second ended as ignored", st.InFlight, c.Dropped, c.Ignored)
		}
	})
}

// What was decided is counted by the way it was asked, a full desk included;
// questions that make no sense are not.
func TestCountsByWay(t *testing.T) {
	s := newServer(t, newDaemon(one()), 1)
	grant(t, s, `{"ingress":"orders"}`)
	call{method: "POST", path: "/v1/admissions", body: `{"ingress":"orders"}`}.do(t, s) // no place
	call{method: "GET", path: "/v1/authorize?ingress=orders"}.do(t, s)                  // no permit
	call{method: "GET", path: "/v1/authorize?ingress=nobody"}.do(t, s)
	sendBatch(t, s, `{"admit":[{"ingress":"orders"}]}`)
	for via, want := range map[decide.Via][2]uint64{
		decide.ViaAdmissions: {1, 2}, decide.ViaAuthorize: {0, 1}, decide.ViaRateLimit: {}, decide.ViaAuthorization: {},
	} {
		if admitted, refused := s.decider.Counts(via); [2]uint64{admitted, refused} != want {
			t.Errorf("by %v: %d admitted, %d refused; want %v", via, admitted, refused, want)
		}
	}
}
