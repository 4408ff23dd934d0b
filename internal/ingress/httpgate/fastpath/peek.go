package fastpath

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/admitd/admitd/internal/ingress/httpgate/target"
)

// maxBody bounds the body of a plain request, in bytes.
const maxBody = 16 << 10

// headPeek is what a first look at a request tells.
type headPeek struct {
	head   int   // bytes of the head, its empty line included
	length int64 // of the body, as declared; 0 = there is none
}

// glance looks at what came where a request begins, and reports whether it is one
// whole request, with a short body or none, whatever else may be wrong with it.
func peekHead(raw []byte) (g headPeek, ok bool) {
	method := plainMethod(raw)
	if method == "" {
		return g, false
	}
	declared := false
	for {
		i := bytes.IndexByte(raw[g.head:], '\n')
		if i < 1 || raw[g.head+i-1] != '\r' {
			return g, false // the rest is still on its way, or lines end oddly
		}
		line := raw[g.head : g.head+i-1]
		if g.head += i + 1; len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch trimmed := bytes.TrimSpace(name); {
		case changesFrame(trimmed):
			return g, false
		case bytes.EqualFold(trimmed, []byte("Content-Length")):
			n, ok := smallLength(bytes.Trim(value, " \t"))
			if !ok || declared || len(trimmed) != len(name) {
				return g, false
			}
			g.length, declared = n, true
		}
	}
	if g.length > 0 && (method == http.MethodGet || method == http.MethodHead) {
		return g, false
	}
	return g, int64(len(raw)-g.head) == g.length
}

// framesTwice reports whether a whole head stands in raw that says both by a length and
// by Transfer-Encoding where the body ends: two readers may not agree (RFC 9112, section
// 6.3).
func framesTwice(raw []byte) bool {
	length, encoding := false, false
	for {
		line, rest, whole := bytes.Cut(raw, []byte("\r\n"))
		if !whole || len(line) == 0 {
			return whole && length && encoding
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		encoding = encoding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
		raw = rest
	}
}

// plainMethod returns the method of a plain request, "" when raw begins with none.
func plainMethod(raw []byte) string {
	for _, method := range [...]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodHead, http.MethodDelete, http.MethodPatch} {
		if n := len(method); len(raw) > n+1 && string(raw[:n]) == method && raw[n] == ' ' && raw[n+1] == '/' {
			return method
		}
	}
	return ""
}

// smallLength reads the length of a body that a plain request may have.
func smallLength(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > len("16384") {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, n <= maxBody
}

// changesFrame reports whether a field may change where a request ends in another
// way than by a length, or give the connection another protocol. Connection itself
// is for parse to judge.
func changesFrame(name []byte) bool {
	switch len(name) {
	case len("Expect"):
		return bytes.EqualFold(name, []byte("Expect"))
	case len("Upgrade"):
		return bytes.EqualFold(name, []byte("Upgrade")) || bytes.EqualFold(name, []byte("Trailer"))
	case len("Transfer-Encoding"):
		return bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	return false
}

// parse reads the head of a request, as glance has found it, into p.r and reports
// whether it is a plain one. What net/http would refuse is not.
func (p *plain) parse(head string, g headPeek) bool {
	line, rest, _ := strings.Cut(head, "\r\n")
	p.r.Method, p.r.ContentLength = plainMethod([]byte(line)), g.length
	text, ok := strings.CutSuffix(line[min(len(p.r.Method)+1, len(line)):], " HTTP/1.1")
	if !ok {
		return false
	}
	if !strings.HasPrefix(text, "/") || !target.IsValid(text) {
		return false
	}
	if p.r.URL, ok = target.Parse(text, &p.url); !ok {
		return false
	}
	p.r.RequestURI, p.r.Host = text, ""
	clear(p.r.Header)
	p.values = p.values[:0]
	for {
		line, rest, ok = strings.Cut(rest, "\r\n")
		if !ok {
			return false // the rest is still on its way
		}
		if line == "" {
			return rest == "" && p.r.Host != ""
		}
		if !p.field(line) {
			return false
		}
	}
}

// field takes one header line and reports whether it leaves the request plain.
func (p *plain) field(line string) bool {
	name, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	if !ok || len(p.values) == cap(p.values) || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return false
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host":
		ok = p.r.Host == "" && value != "" && httpguts.ValidHostHeader(value)
		p.r.Host = value
		return ok
	case "Connection":
		return strings.EqualFold(value, "keep-alive")
	}
	if old, ok := p.r.Header[name]; ok {
		p.r.Header[name] = append(slices.Clip(old), value)
		return true
	}
	p.values = append(p.values, value)
	n := len(p.values)
	p.r.Header[name] = p.values[n-1 : n : n]
	return true
}
