package httpgate_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// asServed reads a request as net/http's server does, nil when it refuses it. The
// checks that http.ReadRequest leaves to the server are made here.
func asServed(raw []byte) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil || !httpguts.ValidHostHeader(r.Host) || r.ProtoMajor != 1 || r.ProtoMinor > 0 && r.Host == "" {
		return nil
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil
		}
	}
	return r
}

// FuzzHead: the head that a backend gets is that of one request, and says to
// net/http what net/http has understood of the client's.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		"GET /a?b=%20c HTTP/1.1\r\nHost: a\r\nX: y\r\nX: z\r\nConnection: x-b\r\nX-B: c\r\n\r\n",
		"POST http://b/a/../c HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"PUT /a;b?c HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\nTe: trailers\r\nKeep-Alive: 1\r\n\r\nabc",
		"OPTIONS * HTTP/1.1\r\nHost: [::1]\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\nX-Tenant: t\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-T, Host\r\nExpect: 100-continue\r\n\r\n0\r\nX-T: 1\r\n\r\n",
		"GET //x/%2e%2e?#f HTTP/1.1\r\nHost:\ta\t\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	head, err := httpgate.RequestHead(httpgate.Options{Backend: "http://127.0.0.1:1", By: []string{"header:X-Tenant"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want := asServed(raw)
		if want == nil {
			return
		}
		wire := head(want)
		if wire == nil {
			return
		}
		if n := bytes.Count(wire, []byte("\r\n\r\n")); n != 1 || !bytes.HasSuffix(wire, []byte("\r\n\r\n")) {
			t.Fatalf("%q becomes %q, which is not one head", raw, wire)
		}
		got := asServed(wire)
		if got == nil {
			t.Fatalf("%q becomes %q, which net/http refuses", raw, wire)
		}
		if got.Method != want.Method || want.Host != "" && got.Host != want.Host || got.ContentLength != want.ContentLength ||
			!slices.Equal(got.TransferEncoding, want.TransferEncoding) || got.Close {
			t.Errorf("%q becomes %q", raw, wire)
		}
		if uri := got.RequestURI; uri != want.RequestURI && uri != want.URL.RequestURI() {
			t.Errorf("%q: target %q", raw, uri)
		}
		sameFields(t, want.Header, got.Header)
	})
}

// sameFields checks that what is left of a message's fields is what one hop hands
// to the next.
func sameFields(t *testing.T, want, got http.Header) {
	t.Helper()
	listed := strings.Join(want["Connection"], ",")
	for name, values := range want {
		switch name {
		case "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "X-Real-Ip", "Via", "Te", "Expect", "Content-Length", "Date", "Trailer":
			continue // written anew, or answered
		}
		if upstream.IsHop(name, listed) {
			if len(got[name]) > 0 {
				t.Errorf("%s went further: %q", name, got[name])
			}
			continue
		}
		if !slices.Equal(got[name], values) {
			t.Errorf("%s is %q; want %q", name, got[name], values)
		}
	}
}

// whole is an answer with all of its body.
type whole struct {
	*http.Response
	body []byte
	err  error // of the body
}

// readWhole reads the answer to a request, after those that only announce it.
func readWhole(r io.Reader, method string) (w whole, err error) {
	br := bufio.NewReader(r)
	for {
		if w.Response, err = http.ReadResponse(br, &http.Request{Method: method}); err != nil { //nolint:bodyclose // closed below; what only announces has none
			return w, err
		}
		if w.StatusCode >= 200 || w.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	defer w.Body.Close()
	w.body, w.err = io.ReadAll(w.Body)
	return w, nil
}

// FuzzAnswer: the answer that a client gets through the gate is the one that
// net/http reads from the backend's bytes, or one of the gate's own. An answer that
// was broken off is broken off for the client too.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\nX: z\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 404 No\r\nConnection: x-b\r\nX-B: c\r\n\r\nto the end",
		"HTTP/1.0 204 No Content\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\nEtag: a\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	var answer atomic.Pointer[[]byte]
	g := start(f, serveRaw(f, func(c net.Conn, br *bufio.Reader) {
		if _, err := readRequestHead(br); err == nil {
			_, _ = c.Write(*answer.Load())
		}
	}), limiter.Policy{}, httpgate.Options{})
	f.Fuzz(func(t *testing.T, raw []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		answer.Store(&raw)
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(c, "%s / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", method)
		got, err := readWhole(c, method)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Fatalf("%q: the client reads %v", raw, err)
		}
		want, unread := readWhole(bytes.NewReader(raw), method)
		if err != nil || got.Header.Get(labels.HeaderReason) != "" || got.StatusCode == http.StatusBadGateway {
			return // broken off, or refused by the gate, which may be stricter
		}
		if unread != nil {
			return // or more lenient on what does not frame anything
		}
		if got.StatusCode != want.StatusCode || want.err == nil && got.err == nil && !bytes.Equal(got.body, want.body) {
			t.Errorf("%q: the client reads %d %q; want %d %q", raw, got.StatusCode, got.body, want.StatusCode, want.body)
		}
		if want.err != nil && got.err == nil {
			t.Errorf("%q: broken off by %v, and whole to the client: %q", raw, want.err, got.body)
		}
		sameFields(t, want.Header, got.Header)
	})
}
