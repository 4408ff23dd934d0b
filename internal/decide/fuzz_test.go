package decide_test

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/decide"
)

// FuzzForwarded: what a proxy says of a request is understood as net/http would
// understand the request itself, so that its partition, its cost and its
// exemption are those that it has at a gate.
func FuzzForwarded(f *testing.F) {
	f.Add("POST", "/a/../b;c?d=%20e#f", "a:1", "192.0.2.1, 10.0.0.1")
	f.Add("GET", "http://b/x", "", "::1")
	f.Add("", "//b/x", "[::1]", "[::1]")
	f.Add("GET", "*", "a b", "x\r\ny")
	f.Fuzz(func(t *testing.T, method, uri, host, from string) {
		ask := httptest.NewRequest(http.MethodGet, "/v1/authorize", http.NoBody)
		for name, value := range map[string]string{
			"X-Forwarded-Method": method, "X-Forwarded-Uri": uri, "X-Forwarded-Host": host, "X-Forwarded-For": from, decide.HeaderToken: "secret",
		} {
			ask.Header[http.CanonicalHeaderKey(name)] = []string{value}
		}
		got, err := decide.Forwarded(ask)
		if err != nil {
			if _, bad := url.ParseRequestURI(uri); bad == nil || !errors.Is(err, decide.ErrUnacceptable) {
				t.Errorf("%q: %v; want ErrUnacceptable for what is no URI", uri, err)
			}
			return
		}
		if got.URL == nil || got.Method == "" || got.Host == "" || got.Header.Get(decide.HeaderToken) != "" || ask.Header.Get(decide.HeaderToken) != "secret" {
			t.Fatalf("%+v", got)
		}
		if host, _, err := net.SplitHostPort(got.RemoteAddr); from != "" && !strings.ContainsAny(from, "[]") && (err != nil || strings.Contains(host, ",")) {
			t.Errorf("the client of %q is %q: %v", from, got.RemoteAddr, err)
		}
		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + uri + " HTTP/1.1\r\nHost: a\r\n\r\n")))
		if err != nil || want.RequestURI != uri {
			return
		}
		if got.URL.Path != want.URL.Path && want.URL.Path != "" || got.URL.RawPath != want.URL.RawPath || got.URL.RawQuery != want.URL.RawQuery {
			t.Errorf("%q is %q %q ? %q; to net/http %q %q ? %q", uri, got.URL.Path, got.URL.RawPath, got.URL.RawQuery, want.URL.Path, want.URL.RawPath, want.URL.RawQuery)
		}
	})
}
