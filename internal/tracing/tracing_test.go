package tracing_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/admitd/admitd/internal/tracing"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentSpan  = "00f067aa0ba902b7"
)

// fakeCollector keeps what is exported to it.
type fakeCollector struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	spans    []*spans.Span
	resource map[string]any
	header   http.Header
	path     string
}

func newCollector(t *testing.T) *fakeCollector {
	t.Helper()
	c := &fakeCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err := errors.Join(err, proto.Unmarshal(b, &req)); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.header, c.path = r.Header, r.URL.Path
		for _, rs := range req.GetResourceSpans() {
			c.resource = attributes(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// attributes turns what travels into what was set.
func attributes(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[kv.GetKey()] = v.DoubleValue
		}
	}
	return m
}

// start returns a tracer that exports to c.
func start(t *testing.T, o tracing.Options) *tracing.Tracer {
	t.Helper()
	tr, err := tracing.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(context.WithoutCancel(t.Context())) })
	return tr
}

func request(method, target, traceparent string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	return r
}

// One span per request, with what was decided, for whom, why and how long it
// took.
func TestSpans(t *testing.T) {
	rejection := &limiter.Rejection{Reason: labels.ConcurrencyLimit, Ingress: "orders", Partition: "batch"}
	type want struct {
		name, message string
		code          spans.Status_StatusCode
		attributes    map[string]any
	}
	for name, tc := range map[string]struct {
		method, target string
		result         tracing.Result
		want           want
	}{
		"admitted": {
			"GET", "/orders/7?card=4711",
			tracing.Result{Status: 200, Partition: "checkout", Wait: 250 * time.Millisecond, Outcome: limiter.Success, Admitted: true},
			want{"GET orders", "", spans.Status_STATUS_CODE_UNSET, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "checkout", "admitd.decision": "admitted", "admitd.wait_seconds": 0.25,
				"admitd.outcome": "success", "http.request.method": "GET", "url.path": "/orders/7", "http.response.status_code": int64(200),
			}},
		},
		"rejected": {
			"POST", "/orders",
			tracing.Result{Status: 503, Partition: "batch", Err: rejection},
			want{"POST orders", rejection.Error(), spans.Status_STATUS_CODE_ERROR, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "batch", "admitd.decision": "rejected", "admitd.wait_seconds": 0.0,
				"admitd.reason": "concurrency_limit", "http.request.method": "POST", "url.path": "/orders", "http.response.status_code": int64(503), "error.type": "503",
			}},
		},
		"the backend failed": {
			"GET", "/",
			tracing.Result{Status: 502, Partition: "default", Outcome: limiter.Dropped, Err: errors.New("connection refused"), Admitted: true},
			want{"GET orders", "connection refused", spans.Status_STATUS_CODE_ERROR, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "default", "admitd.decision": "admitted", "admitd.wait_seconds": 0.0,
				"admitd.outcome": "dropped", "http.request.method": "GET", "url.path": "/", "http.response.status_code": int64(502), "error.type": "502",
			}},
		},
		"the client went away": {
			"GET", "/",
			tracing.Result{Wait: time.Second, Outcome: limiter.Ignored, Err: context.Canceled},
			want{"GET orders", "context canceled", spans.Status_STATUS_CODE_ERROR, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "", "admitd.decision": "abandoned", "admitd.wait_seconds": 1.0,
				"http.request.method": "GET", "url.path": "/", "error.type": "abandoned",
			}},
		},
		"what a client makes up": {
			"BREW", "/" + strings.Repeat("x", 1000),
			tracing.Result{Status: 200, Partition: "\xff\xfe", Outcome: limiter.Success, Admitted: true},
			want{"HTTP orders", "", spans.Status_STATUS_CODE_UNSET, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "\uFFFD", "admitd.decision": "admitted", "admitd.wait_seconds": 0.0,
				"admitd.outcome": "success", "http.request.method": "_OTHER", "url.path": "/" + strings.Repeat("x", 255),
				"http.response.status_code": int64(200),
			}},
		},
		"refused by a rate": { // a status of 4xx is no error of the server's
			"GET", "/",
			tracing.Result{Status: 429, Partition: "batch", Err: rejection},
			want{"GET orders", "", spans.Status_STATUS_CODE_UNSET, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "batch", "admitd.decision": "rejected", "admitd.wait_seconds": 0.0,
				"admitd.reason": "concurrency_limit", "http.request.method": "GET", "url.path": "/", "http.response.status_code": int64(429),
			}},
		},
		"answered by the gate": {
			"POST", "/",
			tracing.Result{Status: 413, Outcome: limiter.Ignored, Err: errors.New("too large")},
			want{"POST orders", "", spans.Status_STATUS_CODE_UNSET, map[string]any{
				"url.scheme": "http", "admitd.ingress": "orders", "admitd.partition": "", "admitd.decision": "invalid", "admitd.wait_seconds": 0.0,
				"http.request.method": "POST", "url.path": "/", "http.response.status_code": int64(413),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			tr := start(t, tracing.Options{Endpoint: c.URL, SampleRatio: 1, Version: "v1.2.3"})
			_, span := tr.Start(request(tc.method, tc.target, ""), "orders")
			id := span.TraceID()
			span.End(tc.result)
			span.End(tracing.Result{Status: 500})
			if err := tr.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(c.spans) != 1 {
				t.Fatalf("%d spans were exported, want 1", len(c.spans))
			}
			s := c.spans[0]
			got := want{s.GetName(), s.GetStatus().GetMessage(), s.GetStatus().GetCode(), attributes(s.GetAttributes())}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("span (-want +got):\n%s", diff)
			}
			if s.GetKind() != spans.Span_SPAN_KIND_SERVER || hex.EncodeToString(s.GetTraceId()) != id {
				t.Errorf("kind %v, trace %x; want a server's, and %s", s.GetKind(), s.GetTraceId(), id)
			}
			if want := map[string]any{"service.name": "admitd", "service.version": "v1.2.3"}; !cmp.Equal(c.resource, want) {
				t.Errorf("resource %v, want %v", c.resource, want)
			}
		})
	}
}

// The trace that a request belongs to goes on, through this span, to the
// backend; its decision about sampling is kept.
func TestContextIsPassedOn(t *testing.T) {
	for name, tc := range map[string]struct {
		traceparent string
		ratio       float64
		exported    bool
	}{
		"sampled, although few are":    {"00-" + parentTrace + "-" + parentSpan + "-01", 0, true},
		"not sampled, although all":    {"00-" + parentTrace + "-" + parentSpan + "-00", 1, false},
		"no trace yet, all":            {"", 1, true},
		"no trace yet, none":           {"", 0, false},
		"what is not a traceparent":    {"00-zz", 1, true},
		"a trace of zeros is no trace": {"00-" + strings.Repeat("0", 32) + "-" + parentSpan + "-01", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			tr := start(t, tracing.Options{Endpoint: c.URL, SampleRatio: tc.ratio})
			r := request("GET", "/", tc.traceparent)
			r.Header.Set("Tracestate", "vendor=1")
			ctx, span := tr.Start(r, "orders")
			if ctx == r.Context() {
				t.Error("the context does not carry the span")
			}
			sent := strings.Split(r.Header.Get("Traceparent"), "-")
			if len(sent) != 4 || sent[2] == parentSpan {
				t.Fatalf("the backend gets traceparent %q, want one of this span", r.Header.Get("Traceparent"))
			}
			flags := "00"
			if tc.exported {
				flags = "01"
			}
			if sent[3] != flags {
				t.Errorf("flags %s, want %s", sent[3], flags)
			}
			hasParent := strings.Contains(tc.traceparent, parentTrace)
			if hasParent && (sent[1] != parentTrace || r.Header.Get("Tracestate") != "vendor=1") {
				t.Errorf("trace %s, state %q; want the client's", sent[1], r.Header.Get("Tracestate"))
			}
			if got := span.TraceID() != ""; got != tc.exported {
				t.Errorf("TraceID() = %q", span.TraceID())
			}
			span.End(tracing.Result{Status: 200})
			if err := tr.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(c.spans) == 1; got != tc.exported {
				t.Fatalf("%d spans were exported, want exported = %v", len(c.spans), tc.exported)
			}
			if !tc.exported {
				return
			}
			s := c.spans[0]
			if got := hex.EncodeToString(s.GetSpanId()); got != sent[2] {
				t.Errorf("exported span %s, want the one the backend knows, %s", got, sent[2])
			}
			if got := hex.EncodeToString(s.GetParentSpanId()); hasParent && got != parentSpan {
				t.Errorf("parent %s, want %s", got, parentSpan)
			}
		})
	}
}

// The collector gets the headers of the configuration at the path of OTLP, and
// a password from the URL as an authorization.
func TestExportGoesWhereItWasTold(t *testing.T) {
	for name, tc := range map[string]struct {
		path, user    string
		headers       map[string]string
		wantPath      string
		authorization string
	}{
		"base":           {"", "", map[string]string{"X-Scope": "ops"}, "/v1/traces", ""},
		"base and slash": {"/", "", nil, "/v1/traces", ""},
		"prefix":         {"/otlp", "", nil, "/otlp/v1/traces", ""},
		"whole":          {"/otlp/v1/traces", "", nil, "/otlp/v1/traces", ""},
		"password":       {"", "u:p@", nil, "/v1/traces", "Basic dTpw"},
		"header wins":    {"", "u:p@", map[string]string{"Authorization": "Bearer x"}, "/v1/traces", "Bearer x"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t)
			endpoint := strings.Replace(c.URL, "http://", "http://"+tc.user, 1) + tc.path
			tr := start(t, tracing.Options{Endpoint: endpoint, SampleRatio: 1, Headers: tc.headers})
			_, span := tr.Start(request("GET", "/", ""), "orders")
			span.End(tracing.Result{Status: 200})
			if err := tr.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.path != tc.wantPath || c.header.Get("Authorization") != tc.authorization {
				t.Errorf("path %q, authorization %q; want %q, %q", c.path, c.header.Get("Authorization"), tc.wantPath, tc.authorization)
			}
			for k, v := range tc.headers {
				if c.header.Get(k) != v {
					t.Errorf("header %s: %q, want %q", k, c.header.Get(k), v)
				}
			}
		})
	}
}

// An endpoint that is none is refused, without a word about its password.
func TestEndpointMustHold(t *testing.T) {
	for _, endpoint := range []string{"", "collector:4318", "ftp://u:geheim@c", "http://u:geheim@", "http://u:geheim@c:x"} {
		tr, err := tracing.New(t.Context(), tracing.Options{Endpoint: endpoint})
		if err == nil || tr != nil {
			t.Errorf("New(%q): no error", endpoint)
			continue
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("New(%q): %v", endpoint, err)
		}
	}
}

// A collector that is not there costs no request anything, and is logged.
func TestCollectorIsAway(t *testing.T) {
	c := newCollector(t)
	c.Close()
	var mu sync.Mutex
	var lines strings.Builder
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(p)
	}), nil))
	tr := start(t, tracing.Options{Endpoint: c.URL, SampleRatio: 1, Log: log})
	began := time.Now()
	for range 10_000 { // more than the queue holds
		_, span := tr.Start(request("GET", "/", ""), "orders")
		span.End(tracing.Result{Status: 200})
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("10,000 spans took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := tr.Close(ctx)
	mu.Lock()
	defer mu.Unlock()
	if err == nil && !strings.Contains(lines.String(), "traces could not be exported") {
		t.Errorf("neither an error nor a line in the log: %q", lines.String())
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
