package target

import (
	"iter"
	"net/url"
	"path"
	"strings"
)

// longSegment is the length beyond which a segment of a path is no word.
const longSegment = 32

// IsClear reports whether the path of u means the same to everybody, and so may be
// exempt. What is escaped, has parameters behind a semicolon, or goes by "..", "."
// or "//" may match one pattern here and be another operation at the backend.
func IsClear(u *url.URL) bool {
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

// Readings returns the ways in which backends may read the path of u: as it stands,
// without a slash at its end, and where it is not clear [Cleaned] and [Loose].
func Readings(u *url.URL) iter.Seq[string] {
	return func(yield func(string) bool) {
		p := u.Path
		if !yield(p) {
			return
		}
		if IsClear(u) {
			if len(p) > 1 && p[len(p)-1] == '/' {
				yield(p[:len(p)-1])
			}
			return
		}
		for _, p := range [2]string{Cleaned(p), Loose(p)} {
			if !yield(p) || !yield(strings.TrimSuffix(p, "/")) {
				return
			}
		}
	}
}

// isClean reports whether p is a path that names no detour.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || len(p) == len(clean)+1 && p[len(p)-1] == '/' && p[:len(clean)] == clean
}

// Cleaned returns p without "//", "." and "..", which most backends take out too.
// A slash at the end stays.
func Cleaned(p string) string {
	if p == "" || isClean(p) {
		return p
	}
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// Loose returns p as the most generous backend reads it: unescaped again, to where
// a fragment begins, with backslashes for slashes, without parameters behind
// semicolons, and [Cleaned].
func Loose(p string) string {
	for range 2 {
		if u, err := url.PathUnescape(p); err == nil {
			p = u
		}
	}
	p, _, _ = strings.Cut(p, "#")
	segments := strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return Cleaned(strings.Join(segments, "/"))
}

// Form returns a segment of a path, or {} for one that is a value: that holds a
// digit and is no version such as v2, or is too long for a word.
func Form(segment string) string {
	if len(segment) > longSegment {
		return "{}"
	}
	digits := 0
	for i := range len(segment) {
		if '0' <= segment[i] && segment[i] <= '9' {
			digits++
		}
	}
	if digits > 0 && (segment[0] != 'v' || digits != len(segment)-1 || digits > 2) {
		return "{}"
	}
	return segment
}

// Family returns the head of a path that many requests share: its first segment,
// and the second where the first is a version or says that it is an interface.
func Family(path string) string {
	segments := 1
	if rest := strings.TrimPrefix(path, "/"); strings.HasPrefix(rest, "api/") || isVersion(rest) {
		segments = 2
	}
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if segments--; segments == 0 {
			return path[:i]
		}
	}
	return path
}

// isVersion reports whether a path without its slash begins with one, such as v2/.
func isVersion(path string) bool {
	head, _, ok := strings.Cut(path, "/")
	return ok && len(head) > 1 && len(head) < 5 && head[0] == 'v' && strings.Trim(head[1:], "0123456789") == ""
}
