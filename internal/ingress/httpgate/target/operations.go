package target

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// Operations map patterns of method and path to values. It is immutable and
// safe for concurrent use. The zero value matches nothing.
type Operations struct {
	exact  router
	folded router // the same in lower case
	cased  bool   // some pattern holds a letter in upper case
}

// operation is a pattern taken apart. The method is empty for any.
type operation struct{ method, pattern string }

// router finds patterns. The zero value matches nothing.
type router struct {
	mux    *chi.Mux
	values map[operation]float64
	pool   sync.Pool // of *chi.Context
}

// Add makes a pattern match: "GET /health", "/internal/*", "POST /orders/{id}". A
// pattern for GET matches HEAD too, unless there is one for HEAD. An
// error names the pattern, whose path begins with no slash or cannot be routed. It
// must not be called once the others have been.
func (o *Operations) Add(text string, value float64) (err error) {
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
	o.exact.add(operation{method, pattern}, value)
	low := operation{method, strings.ToLower(pattern)}
	if was, twice := o.folded.values[low]; !twice || value > was {
		o.folded.add(low, value)
	}
	o.cased = o.cased || hasUpper(pattern)
	return nil
}

func (r *router) add(op operation, value float64) {
	if r.mux == nil {
		r.mux, r.values = chi.NewRouter(), map[operation]float64{}
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	if op.method == "" {
		r.mux.HandleFunc(op.pattern, nothing)
	} else {
		r.mux.MethodFunc(op.method, op.pattern, nothing)
	}
	r.values[op] = value
}

// IsEmpty reports whether no pattern was added.
func (o *Operations) IsEmpty() bool { return o.exact.mux == nil }

// Find returns the value of the most specific pattern that matches, by method and
// path as they stand; ok is false when none does.
func (o *Operations) Find(method, path string) (value float64, ok bool) {
	return o.exact.find(method, path)
}

// FindLoosely returns the greatest value of the patterns that match where the backend
// does not tell upper from lower case in the path or the method; ok is false when
// none does, or when that is what [Operations.Find] finds.
func (o *Operations) FindLoosely(method, path string) (value float64, ok bool) {
	loud := hasLower(method)
	cased := o.cased || hasUpper(path)
	if o.IsEmpty() || !loud && !cased {
		return 0, false
	}
	if loud {
		method = strings.ToUpper(method)
		value, ok = o.exact.find(method, path)
	}
	if cased {
		if v, found := o.folded.find(method, strings.ToLower(path)); found && (!ok || v > value) {
			value, ok = v, true
		}
	}
	return value, ok
}

// find looks for a method as servers route it: HEAD as GET where nothing is said of
// HEAD, and one that nobody knows as any.
func (r *router) find(method, path string) (value float64, ok bool) {
	if r.mux == nil {
		return 0, false
	}
	value, own, ok := r.match(method, path)
	if method == http.MethodHead && !own {
		if v, _, found := r.match(http.MethodGet, path); found {
			return v, true
		}
	}
	return value, ok
}

// match finds the most specific pattern of a method; own says that it names the
// method.
func (r *router) match(method, path string) (value float64, own, ok bool) {
	rctx, _ := r.pool.Get().(*chi.Context)
	if rctx == nil {
		rctx = chi.NewRouteContext()
	}
	rctx.Reset()
	routed := method
	if !isRouted(method) {
		routed = http.MethodTrace // patterns for any method match it too
	}
	pattern := r.mux.Find(rctx, routed, path)
	r.pool.Put(rctx)
	if pattern == "" {
		return 0, false, false
	}
	if v, ok := r.values[operation{method, pattern}]; ok {
		return v, true, true
	}
	v, ok := r.values[operation{"", pattern}]
	return v, false, ok
}

// isRouted reports whether the router knows a method.
func isRouted(method string) bool {
	switch method {
	case http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
		http.MethodPost, http.MethodPut, http.MethodTrace:
		return true
	}
	return false
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

func hasLower(s string) bool {
	for i := range len(s) {
		if 'a' <= s[i] && s[i] <= 'z' {
			return true
		}
	}
	return false
}
