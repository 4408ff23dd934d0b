package httpgate

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// operations maps patterns of method and path to values. It is immutable and
// safe for concurrent use. The zero value matches nothing.
type operations struct {
	mux    *chi.Mux
	values map[operation]float64
	pool   sync.Pool // of *chi.Context
}

// operation is a pattern taken apart. The method is empty for any.
type operation struct{ method, pattern string }

// add makes a pattern match. It must not be called once find has been.
func (o *operations) add(text string, value float64) (err error) {
	method, pattern, ok := strings.Cut(text, " ")
	if !ok {
		method, pattern = "", text
	}
	pattern = strings.TrimSpace(pattern)
	if !strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("operation %q: the path must begin with /", text)
	}
	defer func() { // chi panics on patterns that it cannot route
		if p := recover(); p != nil {
			err = fmt.Errorf("operation %q: %v", text, p)
		}
	}()
	if o.mux == nil {
		o.mux, o.values = chi.NewRouter(), map[operation]float64{}
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	if method == "" {
		o.mux.HandleFunc(pattern, nothing)
	} else {
		o.mux.MethodFunc(method, pattern, nothing)
	}
	o.values[operation{method, pattern}] = value
	return nil
}

// find returns the value of the most specific pattern that matches.
func (o *operations) find(method, p string) (float64, bool) {
	if o.mux == nil {
		return 0, false
	}
	rctx, _ := o.pool.Get().(*chi.Context)
	if rctx == nil {
		rctx = chi.NewRouteContext()
	}
	rctx.Reset()
	pattern := o.mux.Find(rctx, method, p)
	o.pool.Put(rctx)
	if pattern == "" {
		return 0, false
	}
	if v, ok := o.values[operation{method, pattern}]; ok {
		return v, true
	}
	v, ok := o.values[operation{"", pattern}]
	return v, ok
}

// params returns the parameters of the cleaned path when it matches, joined by "/",
// and the pattern itself when it has none.
func (o *operations) params(r *http.Request) string {
	rctx, _ := o.pool.Get().(*chi.Context)
	if rctx == nil {
		rctx = chi.NewRouteContext()
	}
	defer o.pool.Put(rctx)
	rctx.Reset()
	pattern := o.mux.Find(rctx, r.Method, cleaned(r.URL.Path))
	if pattern == "" {
		return ""
	}
	key := ""
	for i, name := range rctx.URLParams.Keys {
		switch {
		case name == "*":
		case key == "":
			key = rctx.URLParams.Values[i]
		default:
			key += "/" + rctx.URLParams.Values[i]
		}
	}
	if key == "" {
		return pattern
	}
	return key
}

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

// loose returns p as the most generous backend reads it: unescaped again, to where
// a fragment begins, with backslashes for slashes, without parameters behind
// semicolons, and cleaned.
func loose(p string) string {
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
	return cleaned(strings.Join(segments, "/"))
}
