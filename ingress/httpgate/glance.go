package httpgate

import (
	"bytes"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// isWholeGet reports whether raw is exactly one GET request, whole and without a
// body, whatever else may be wrong with it.
func isWholeGet(raw []byte) bool {
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

// parse reads a whole GET into p.r and reports whether it is a plain one. What
// net/http would refuse is not.
func (p *plain) parse(raw string) bool {
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
	if p.r.URL, err = url.ParseRequestURI(target); err != nil {
		return false
	}
	p.r.RequestURI, p.r.Host = target, ""
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
