package httpgate_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/testkit/rawhttp2"
	"github.com/admitd/admitd/limiter"
)

// received is a request as the backend got it.
type received struct {
	line    string
	fields  []string // sorted
	body    string
	trailer http.Header
}

// receive runs a backend that keeps what it gets, and answers 204.
func receive(t *testing.T) (backend string, got <-chan received) {
	t.Helper()
	all := make(chan received, 16)
	return serveRaw(t, func(c net.Conn, br *bufio.Reader) {
		head, err := readRequestHead(br)
		if err != nil {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), br)))
		if err != nil {
			t.Errorf("the backend gets %q: %v", head, err)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the backend gets %q and a body: %v", head, err)
			return
		}
		lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
		slices.Sort(lines[1:])
		all <- received{lines[0], lines[1:], string(body), r.Trailer}
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	}), all
}

// What the backend gets of requests of HTTP/2, line by line, all of them on one
// connection.
func TestHTTP2Request(t *testing.T) { inLanes(t, requests) }

func requests(t *testing.T, l lane) {
	t.Helper()
	backend, got := receive(t)
	g := l.frugal(t, backend, limiter.Policy{}, httpgate.Options{})
	c := l.speak(t, g.addr, rawhttp2.Options{})
	proto := "http"
	if l.client != nil {
		proto = "https"
	}
	long := strings.Repeat("0123456789", 4000)
	for i, tc := range []struct {
		name    string
		method  string
		path    string
		fields  []string
		host    string // "" = a
		body    []string
		trailer []string
		want    []string
		gone    string // the trailers at the backend
	}{
		{name: "GET", method: "GET", path: "/"},
		{name: "a path and a query are left as they are", method: "GET", path: "/a%2Fb/../c//?q=1;2&q=%20+%c3"},
		{name: "a query alone", method: "DELETE", path: "/?"},
		{name: "a method of the client's own", method: "PURGE-it", path: "/x"},
		{name: "host in the place of :authority", method: "GET", path: "/", fields: []string{":authority: -", "host: b:80"}, host: "b:80"},
		{name: "host and :authority, the same", method: "GET", path: "/", fields: []string{"host: a"}},
		{name: "pieces of a cookie become one", method: "GET", path: "/", fields: []string{"cookie: a=b", "cookie: c=d; e=f", "cookie: g=h"}, want: []string{"Cookie: a=b; c=d; e=f; g=h"}},
		{name: "te", method: "GET", path: "/", fields: []string{"te: trailers"}, want: []string{"Te: trailers"}},
		{name: "fields that are there twice", method: "GET", path: "/", fields: []string{"x-a: 1", "accept: b", "x-a: 2", "x-empty: "}, want: []string{"Accept: b", "X-A: 1", "X-A: 2", "X-Empty: "}},
		{name: "obs-text", method: "GET", path: "/", fields: []string{"x-a: \xc3\xa9\t\xff"}, want: []string{"X-A: \xc3\xa9\t\xff"}},
		{name: "priority", method: "GET", path: "/", fields: []string{"priority: u=1, i", "user-agent: x/1"}, want: []string{"Priority: u=1, i", "User-Agent: x/1"}},
		{name: "what other proxies said", method: "GET", path: "/", fields: []string{"via: 2 other", "forwarded: for=b", "x-real-ip: 1.2.3.4", "x-forwarded-proto: gopher", "x-forwarded-host: evil"}, want: []string{"Via: 2 other"}},
		{name: "a field of many frames", method: "GET", path: "/", fields: []string{"x-long: " + long}, want: []string{"X-Long: " + long}},
		{name: "POST of nothing", method: "POST", path: "/", want: []string{"Content-Length: 0"}},
		{name: "an empty body that says so", method: "PUT", path: "/", fields: []string{"content-length: 0"}, body: []string{""}, want: []string{"Content-Length: 0"}},
		{name: "a length", method: "POST", path: "/", fields: []string{"content-length: 5", "content-type: text/x"}, body: []string{"he", "", "llo"}, want: []string{"Content-Length: 5", "Content-Type: text/x"}},
		{name: "no length", method: "POST", path: "/", body: []string{"hello", ""}, want: []string{"Transfer-Encoding: chunked"}},
		{name: "a long body", method: "POST", path: "/", fields: []string{"content-length: 40000"}, body: []string{long}, want: []string{"Content-Length: 40000"}},
		{name: "GET with a body", method: "GET", path: "/", fields: []string{"content-length: 2"}, body: []string{"ab"}, want: []string{"Content-Length: 2"}},
		{name: "expect is the gate's", method: "POST", path: "/", fields: []string{"content-length: 2", "expect: 100-continue"}, body: []string{"ab"}, want: []string{"Content-Length: 2"}},
		{
			name: "trailers that were announced", method: "POST", path: "/", fields: []string{"trailer: x-sum, content-length, x y, x:"}, body: []string{"ab"}, trailer: []string{"x-sum: 1"},
			want: []string{"Trailer: X-Sum", "Transfer-Encoding: chunked"}, gone: "map[X-Sum:[1]]",
		},
		{name: "GET again", method: "GET", path: "/again", fields: []string{"x-a: 2", "accept: b"}, want: []string{"Accept: b", "X-A: 2"}},
	} {
		id := uint32(2*i + 1)
		send(c, id, c.Request(tc.method, tc.path, tc.fields...), tc.body, tc.trailer)
		answer := c.Answer(id)
		if answer.Status != "204" || len(answer.Body) > 0 || !answer.Ended {
			t.Errorf("%s: answer %+v, want 204", tc.name, answer)
			continue
		}
		if tc.host == "" {
			tc.host = "a"
		}
		r := <-got
		want := append(slices.Clone(tc.want), "Host: "+tc.host, "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: "+tc.host, "X-Forwarded-Proto: "+proto)
		slices.Sort(want)
		if line := tc.method + " " + tc.path + " HTTP/1.1"; r.line != line {
			t.Errorf("%s: request line %q, want %q", tc.name, r.line, line)
		}
		if fmt.Sprintf("%.300q", r.fields) != fmt.Sprintf("%.300q", want) {
			t.Errorf("%s: fields\n%.300q, want\n%.300q", tc.name, r.fields, want)
		}
		if body := strings.Join(tc.body, ""); r.body != body {
			t.Errorf("%s: body of %d bytes %.20q, want %d %.20q", tc.name, len(r.body), r.body, len(body), body)
		}
		if tc.gone == "" {
			tc.gone = "map[]"
		}
		if fmt.Sprint(r.trailer) != tc.gone {
			t.Errorf("%s: trailers %v, want %v", tc.name, r.trailer, tc.gone)
		}
	}
}

// send sends a request whose body comes in pieces, the last of which ends it unless
// trailers do.
func send(c *rawhttp2.Conn, id uint32, head []rawhttp2.Field, body, trailer []string) {
	_ = c.Headers(id, len(body) == 0, head)
	for i, piece := range body {
		last := i == len(body)-1 && trailer == nil
		if len(piece) == 0 {
			_ = c.Data(id, last, nil)
		} else if !c.Send(id, last, []byte(piece)) {
			return
		}
	}
	if trailer != nil {
		_ = c.Headers(id, true, rawhttp2.Fields(trailer...))
	}
}
