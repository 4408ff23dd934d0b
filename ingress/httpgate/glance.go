package httpgate

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/admitd/admitd/limiter"
)

// scratch is what deciding about one request needs for a moment.
type scratch struct {
	r      http.Request
	values []string
	out    []byte
	body   []byte
}

// scratches holds scratch space.
var scratches = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is global by nature
	return &scratch{r: http.Request{Header: http.Header{}}, values: make([]string, 0, 32)}
}}

// isSimple reports whether raw is exactly one GET request, whole and without a
// body, whatever else may be wrong with it.
func isSimple(raw []byte) bool {
	if !bytes.HasPrefix(raw, []byte("GET /")) {
		return false
	}
	for {
		i := bytes.IndexByte(raw, '\n')
		if i < 1 || raw[i-1] != '\r' {
			return false // the rest is still on its way, or lines end oddly
		}
		if i == 1 {
			return len(raw) == 2
		}
		if name, _, ok := bytes.Cut(raw[:i], []byte(":")); ok && changesFrame(bytes.TrimSpace(name)) {
			return false
		}
		raw = raw[i+1:]
	}
}

// changesFrame reports whether a field may give a GET request a body, or the
// connection another protocol. Connection itself is for parse to judge.
func changesFrame(name []byte) bool {
	switch len(name) {
	case len("Expect"):
		return bytes.EqualFold(name, []byte("Expect"))
	case len("Upgrade"):
		return bytes.EqualFold(name, []byte("Upgrade")) || bytes.EqualFold(name, []byte("Trailer"))
	case len("Content-Length"):
		return bytes.EqualFold(name, []byte("Content-Length"))
	case len("Transfer-Encoding"):
		return bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	return false
}

// parse reads a simple request into sc.r and reports whether it is one. What
// net/http would refuse is not simple.
func (sc *scratch) parse(raw string) bool {
	line, rest, _ := strings.Cut(raw, "\r\n")
	target, ok := strings.CutPrefix(line, "GET ")
	if !ok || !strings.HasSuffix(target, " HTTP/1.1") {
		return false
	}
	target = strings.TrimSuffix(target, " HTTP/1.1")
	if !strings.HasPrefix(target, "/") || !isTarget(target) {
		return false
	}
	var err error
	if sc.r.URL, err = url.ParseRequestURI(target); err != nil {
		return false
	}
	sc.r.Method, sc.r.Host = http.MethodGet, ""
	clear(sc.r.Header)
	sc.values = sc.values[:0]
	for {
		line, rest, ok = strings.Cut(rest, "\r\n")
		if !ok {
			return false // the rest is still on its way
		}
		if line == "" {
			return rest == "" && sc.r.Host != ""
		}
		if !sc.field(line) {
			return false
		}
	}
}

// field takes one header line and reports whether it leaves the request simple.
func (sc *scratch) field(line string) bool {
	name, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	if !ok || len(sc.values) == cap(sc.values) || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return false
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host":
		ok = sc.r.Host == "" && value != "" && httpguts.ValidHostHeader(value)
		sc.r.Host = value
		return ok
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	}
	if old, ok := sc.r.Header[name]; ok {
		sc.r.Header[name] = append(slices.Clip(old), value)
		return true
	}
	sc.values = append(sc.values, value)
	n := len(sc.values)
	sc.r.Header[name] = sc.values[n-1 : n : n]
	return true
}

// write makes sc.out a whole answer that says what [route.refuse] says.
func (sc *scratch) write(rt *route, rej *limiter.Rejection, req limiter.Request, now time.Time) {
	doc, fields := rt.rejection(rej, req)
	b := sc.out[:0]
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(doc.Status), 10)
	b = append(append(append(b, ' '), http.StatusText(doc.Status)...), "\r\n"...)
	for _, f := range fields {
		if f.Value != "" {
			b = appendField(b, f.Name, f.Value)
		}
	}
	b = append(b, "Content-Type: application/problem+json\r\nDate: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	sc.body = doc.AppendJSON(sc.body[:0])
	b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(sc.body)), 10)
	b = append(b, "\r\n\r\n"...)
	sc.out = append(b, sc.body...)
}
