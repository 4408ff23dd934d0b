package httpgate

import (
	"net/http"
	"strings"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// longSegment is the length beyond which a segment of a path is no word.
const longSegment = 32

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
		f = ingress.Fold(f, pattern(segment))
	}
	return rt.gate.Shape(uint64(f), func() string {
		segments := strings.Split(r.URL.Path, "/")
		for i := range segments {
			segments[i] = pattern(segments[i])
		}
		return r.Method + " " + strings.Join(segments, "/")
	})
}

// pattern returns a segment of a path, or {} for one that is a value: that holds a
// digit and is no version such as v2, or is too long for a word.
func pattern(segment string) string {
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
