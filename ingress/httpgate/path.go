package httpgate

import (
	"net/url"
	"path"
	"strings"
)

// isPlain reports whether the path of u means the same to everybody, and so may be
// exempt. What is escaped, has parameters behind a semicolon, or goes by "..", "."
// or "//" may match one pattern here and be another operation at the backend.
func isPlain(u *url.URL) bool {
	if u.RawPath != "" {
		return false
	}
	for i := range len(u.Path) {
		switch c := u.Path[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("/-._~!$&'()*+,=:@", c) >= 0:
		default:
			return false
		}
	}
	return isClean(u.Path)
}

// isClean reports whether p is a path that names no detour.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || len(p) == len(clean)+1 && p[len(p)-1] == '/' && p[:len(clean)] == clean
}

// cleaned returns p without "//", "." and "..", which most backends take out too.
// A slash at the end stays.
func cleaned(p string) string {
	if p == "" || isClean(p) {
		return p
	}
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// loose returns p as the most generous backend reads it: unescaped again, with
// backslashes for slashes, without parameters behind semicolons, and cleaned.
func loose(p string) string {
	for range 2 {
		if u, err := url.PathUnescape(p); err == nil {
			p = u
		}
	}
	segments := strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return cleaned(strings.Join(segments, "/"))
}
