package httpgate

import (
	"net/http"
	"strings"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/target"
	"github.com/admitd/admitd/limiter"
)

// shapeOf returns what a request has in common with others that ask for the same:
// method and path, with {} for the segments that are values. nil = the gate learns
// nothing.
func (rt *route) shapeOf(r *http.Request) *limiter.Shape {
	if !rt.gate.Learns() {
		return nil
	}
	f := ingress.Fold(ingress.NewFingerprint(), r.Method)
	for path := r.URL.Path; path != ""; {
		var segment string
		segment, path, _ = strings.Cut(path, "/")
		f = ingress.Fold(f, target.Form(segment))
	}
	return rt.gate.Shape(uint64(f), func() string {
		segments := strings.Split(r.URL.Path, "/")
		for i := range segments {
			segments[i] = target.Form(segments[i])
		}
		return r.Method + " " + strings.Join(segments, "/")
	})
}
