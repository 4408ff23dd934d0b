package decide_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// daemon stands in for the program: one ingress with one gate.
type daemon struct {
	gate *limiter.Gate
	form labels.HTTPForm
	asks []decide.Ask // every one, in order
}

func newDaemon(p *limiter.Policy) *daemon {
	return &daemon{
		gate: limiter.New("orders", p, limiter.Options{}),
		form: labels.HTTPForm{PerSecond: p.Rate.PerSecond, BurstSeconds: p.Rate.BurstSeconds},
	}
}

func (d *daemon) Admit(ctx context.Context, a *decide.Ask) (limiter.Permit, error) {
	d.asks = append(d.asks, *a)
	if a.Ingress != "orders" {
		return limiter.Permit{}, decide.ErrUnknownIngress
	}
	if a.HTTP != nil && a.Partition == "" {
		a.Partition = a.HTTP.Header.Get("X-Tenant")
	}
	if a.Cost == 0 {
		a.Cost = map[string]float64{"dear": 7}[a.Operation]
	}
	return d.gate.Admit(ctx, limiter.Request{Key: a.Partition, Cost: a.Cost, MaxWait: a.MaxWait, Class: a.Class, Exempt: a.Operation == "drain"})
}

func (d *daemon) Form(string, string) labels.HTTPForm { return d.form }

// server is what a test asks.
type server struct {
	*decide.Server

	decider *decide.Decider
}

func (s server) Permits() int { return s.decider.Held() }

// newServer returns a server over d that holds most permits; 0 = any number.
func newServer(t *testing.T, d *daemon, most int) server {
	t.Helper()
	decider := decide.NewDecider(d, most)
	t.Cleanup(decider.Close)
	return server{decide.NewServer(decider, decide.Options{}), decider}
}

// call is one request and what came back.
type call struct {
	method, path, body string
	header             map[string]string
}

func (c call) do(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	var body io.Reader = http.NoBody
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, body)
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	return v
}
