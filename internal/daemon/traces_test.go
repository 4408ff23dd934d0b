package daemon_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// spanSink receives spans over OTLP and tells what was decided in each.
type spanSink struct {
	*httptest.Server

	mu        sync.Mutex // guards decisions
	decisions []string
}

func newSpanSink(t *testing.T) *spanSink {
	t.Helper()
	s := &spanSink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(z)
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &req); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, span := range ss.GetSpans() {
					for _, kv := range span.GetAttributes() {
						if kv.GetKey() == "admitd.decision" || kv.GetKey() == "admitd.reason" {
							s.decisions = append(s.decisions, kv.GetValue().GetStringValue())
						}
					}
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s
}

// A request through the gate is a span, its trace goes on to the backend, and
// the latency histogram points to it.
func TestRequestsAreTraced(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	sink := newSpanSink(t)
	passed := make(chan string, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		passed <- r.Header.Get("Traceparent")
	}))
	defer backend.Close()

	cfg := configured.From(t, fmt.Sprintf(`{"log": {"level": "error"}, "admin": {"listen": "127.0.0.1:0"},
		"tracing": {"endpoint": %q, "sampleRatio": 0}, "ingresses": [{"name": "orders", "listen": "127.0.0.1:0", "backend": %q,
		"drainTimeout": "5s", "requests": {"rate": 0.001, "burstSeconds": 1000}}]}`, sink.URL, backend.URL))
	d, err := daemon.New(cfg, daemon.Options{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case <-d.Up():
	case err := <-ended:
		t.Fatal(err)
	}

	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} { // the bucket holds one
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.Address("orders").String()+"/orders", http.NoBody)
		req.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Fatalf("request %d: status %d, want %d", i, res.StatusCode, want)
		}
	}
	if got := <-passed; !strings.HasPrefix(got, "00-"+trace+"-") || strings.Contains(got, "00f067aa0ba902b7") {
		t.Errorf("the backend got traceparent %q, want one of the gate in the same trace", got)
	}
	scrape, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.AdminAddress().String()+"/metrics", http.NoBody)
	scrape.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	res, err := http.DefaultClient.Do(scrape)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(body), `trace_id="`+trace+`"`); got != 1 {
		t.Errorf("%d exemplars, want 1, on the bucket of the admitted request's latency:\n%s", got, body)
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := strings.Join(sink.decisions, " "); got != "admitted rejected request_rate" {
		t.Errorf("exported decisions %q", got)
	}
}
