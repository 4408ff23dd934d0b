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
	mux    *chi.Mux
	values map[operation]float64
	pool   sync.Pool // of *chi.Context
}

// operation is a pattern taken apart. The method is empty for any.
type operation struct{ method, pattern string }

// Add makes a pattern match: "GET /health", "/internal/*", "POST /orders/{id}". An
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

// IsEmpty reports whether no pattern was added.
func (o *Operations) IsEmpty() bool { return o.mux == nil }

// Find returns the value of the most specific pattern that matches; ok is false when
// none does.
func (o *Operations) Find(method, p string) (value float64, ok bool) {
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

// Params returns the parameters of the cleaned path when it matches, joined by "/",
// and the pattern itself when it has none; "" when it does not match. At least one
// pattern must have been added.
func (o *Operations) Params(r *http.Request) string {
	rctx, _ := o.pool.Get().(*chi.Context)
	if rctx == nil {
		rctx = chi.NewRouteContext()
	}
	defer o.pool.Put(rctx)
	rctx.Reset()
	pattern := o.mux.Find(rctx, r.Method, Cleaned(r.URL.Path))
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
