package fastpath_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
)

// FuzzDoorstep: what is decided about on the fast path is one request, which
// net/http reads in the same way.
func FuzzFastPath(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a?b=c%20d HTTP/1.1\r\nHost: a:1\r\nX-Tenant: t\r\nX-Tenant: u\r\nConnection: keep-alive\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\n\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
		"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nbody",
		"HEAD /a HTTP/1.1\r\nHost: a\r\ncontent-length: 04\r\nContent-Length: 4\r\n\r\nbody",
		"GET //a/../b;c HTTP/1.1\r\nhost:\ta\t\r\nX: \x80\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := fastpath.Parse(raw)
		if got == nil {
			return
		}
		br := bufio.NewReader(strings.NewReader(string(raw)))
		want, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", raw, err)
		}
		body, err := io.ReadAll(want.Body)
		if err != nil {
			t.Fatalf("net/http does not read the body of %q: %v", raw, err)
		}
		if mine, err := io.ReadAll(got.Body); err != nil || !bytes.Equal(mine, body) {
			t.Errorf("%q: body %q, %v; net/http has %q", raw, mine, err, body)
		}
		if br.Buffered() > 0 || want.ContentLength != got.ContentLength || len(want.TransferEncoding) > 0 || want.Close || want.ProtoMinor != 1 {
			t.Errorf("%q is more than one request: %+v", raw, want)
		}
		if got.Method != want.Method || got.Host != want.Host || got.URL.Path != want.URL.Path ||
			got.URL.RawPath != want.URL.RawPath || got.URL.RawQuery != want.URL.RawQuery {
			t.Errorf("%q: %s %s %s, net/http has %s %s %s", raw, got.Method, got.Host, got.URL, want.Method, want.Host, want.URL)
		}
		want.Header.Del("Connection") // which is judged and not kept
		if len(got.Header) != len(want.Header) {
			t.Errorf("%q: fields %v, net/http has %v", raw, got.Header, want.Header)
		}
		for name, values := range want.Header {
			if !slices.Equal(got.Header[name], values) {
				t.Errorf("%q: %s %q, net/http has %q", raw, name, got.Header[name], values)
			}
		}
	})
}
