package target

import (
	"net/http"
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
