package target

import (
	"net/http"
	"net/url"
	"strings"
)

// Of returns the request target in origin form, byte for byte as the client
// sent it when it sent that form; "" when it sent something that has none. A
// proxy's form, http://host/path, becomes a path (RFC 9112, section 3.2.2), and
// net/http has taken the host from it.
func Of(r *http.Request) string {
	switch {
	case strings.HasPrefix(r.RequestURI, "/"), r.RequestURI == "*" && r.Method == http.MethodOptions:
		return r.RequestURI
	case r.ProtoMajor == 1 && r.URL.Host != "" && r.URL.Opaque == "" && (r.URL.Scheme == "http" || r.URL.Scheme == "https"):
		return r.URL.RequestURI()
	}
	return ""
}

// IsValid reports whether s can stand between the spaces of a request line. A "#"
// cannot (RFC 9112, section 3.2): some servers end the path there, and some do not.
func IsValid(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == '#' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}

// Parse takes a request target apart as net/url does, into room where it is simple,
// and reports whether it is one.
func Parse(text string, room *url.URL) (*url.URL, bool) {
	path, query, asks := strings.Cut(text, "?")
	if strings.HasPrefix(path, "/") && isWords(path) && (query != "" || !asks) {
		*room = url.URL{Path: path, RawQuery: query}
		return room, true
	}
	u, err := url.ParseRequestURI(text)
	return u, err == nil
}

// isWords reports whether a path holds nothing that is escaped or has a meaning
// of its own.
func isWords(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9', c == '/', c == '-', c == '_', c == '.', c == '~':
		default:
			return false
		}
	}
	return true
}
