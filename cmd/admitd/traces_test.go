package main

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
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

	log := slog.New(slog.DiscardHandler)
	tracer, err := newTracer(t.Context(), &config.Tracing{Endpoint: sink.URL, SampleRatio: 0}, "v1", log)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{log: log, metrics: observe.New(observe.Options{}), tracer: tracer}
	gate := limiter.New("orders", &limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 1000}}, limiter.Options{Observer: d.metrics.Gate("orders")})
	server, err := httpgate.New(gate, httpgate.Options{Backend: backend.URL, Observer: d.httpObserver("orders")})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.WithoutCancel(t.Context()), ln) }()

	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} { // the bucket holds one
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+"/orders", http.NoBody)
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := server.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	d.closeTracer(t.Context())
	if got := strings.Join(sink.decisions, " "); got != "admitted rejected request_rate" {
		t.Errorf("exported decisions %q", got)
	}

	scrape := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	scrape.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer := httptest.NewRecorder()
	d.metrics.Handler().ServeHTTP(answer, scrape)
	if got := strings.Count(answer.Body.String(), `trace_id="`+trace+`"`); got != 1 {
		t.Errorf("%d exemplars, want 1, on the bucket of the admitted request's latency:\n%s", got, answer.Body)
	}
}

// Without an endpoint nothing follows requests.
func TestTracingIsOff(t *testing.T) {
	tracer, err := newTracer(t.Context(), &config.Tracing{SampleRatio: 1}, "v1", slog.New(slog.DiscardHandler))
	if tracer != nil || err != nil {
		t.Fatalf("newTracer = %v, %v; want none", tracer, err)
	}
	if o := (&daemon{}).httpObserver("orders"); o != nil {
		t.Errorf("requests are followed by %v", o)
	}
	(&daemon{}).closeTracer(t.Context())
}
