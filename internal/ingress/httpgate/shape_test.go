package httpgate_test

import (
	"net/http"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// Requests that ask for the same with other values are of one shape.
func TestShapesOfRequests(t *testing.T) {
	backend := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) })
	g := start(t, backend, limiter.Policy{Shapes: 10}, httpgate.Options{})
	for _, path := range []string{"/v1/orders/17", "/v1/orders/4711?full=1", "/v1/orders/0b7e3b1c-8a52-4c4e-9a70-9f1a3c5f7d21/items", "/v1/orders"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, nil)
		do(t, req)
		g.ends.wait(t)
	}
	want := map[string]uint64{"GET /v1/orders/{}": 2, "GET /v1/orders/{}/items": 1, "GET /v1/orders": 1}
	for _, s := range g.gate.Shapes(10) {
		if s.Ended != want[s.Name] || s.Bytes != 100*s.Ended {
			t.Errorf("%s: %d ended, %d bytes; want %d, and 100 bytes each", s.Name, s.Ended, s.Bytes, want[s.Name])
		}
		delete(want, s.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
