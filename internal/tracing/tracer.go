package tracing

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Bounds of what is kept and sent.
const (
	maxQueue      = 4096 // spans that wait for their export; further ones are dropped
	maxBatch      = 512  // spans per export
	batchEvery    = 2 * time.Second
	exportTimeout = 10 * time.Second
	maxValue      = 256 // bytes of an attribute that a client chooses
)

// Options of [New].
type Options struct {
	// Endpoint is the URL of an OTLP/HTTP collector, such as
	// http://127.0.0.1:4318; /v1/traces is added unless the path ends so. A
	// user and password in it are sent as basic authorization. Required.
	Endpoint string
	// SampleRatio is the share of requests that are traced, 0 to 1. It decides
	// for requests that belong to no trace yet; the others keep their trace's
	// decision.
	SampleRatio float64
	// Headers are sent with every export; nil = none.
	Headers map[string]string
	// Version of the program; "" = "dev".
	Version string
	// Log is told of exports that fail; nil = nobody is.
	Log *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use. The nil Tracer does not
// exist: who traces nothing has none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
}

// New returns a tracer that exports until [Tracer.Close]. It connects to
// nothing yet; a collector that is not there is an export that fails. It
// replaces the process's handler of OpenTelemetry errors, so that failures go to
// o.Log.
func New(ctx context.Context, o Options) (*Tracer, error) {
	target, headers, err := collector(o)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(target), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithTimeout(exportTimeout), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
	)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Warn("traces could not be exported", slog.Any("error", err))
	}))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter,
			sdk.WithMaxQueueSize(maxQueue), sdk.WithMaxExportBatchSize(maxBatch),
			sdk.WithBatchTimeout(batchEvery), sdk.WithExportTimeout(exportTimeout)),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.SampleRatio))),
		sdk.WithRawSpanLimits(limits),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "admitd"), attribute.String("service.version", o.Version))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/admitd/admitd/internal/tracing")}, nil
}

// errEndpoint is wrapped by the error for an endpoint that is not a URL.
var errEndpoint = errors.New("tracing: the endpoint must be a URL, such as http://127.0.0.1:4318")

// collector returns where spans are sent, and with which headers.
func collector(o Options) (target string, headers map[string]string, err error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, errEndpoint // without the value, which may hold a password
	}
	headers = maps.Clone(o.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		if _, taken := headers["Authorization"]; !taken {
			headers["Authorization"] = "Basic " + basic
		}
		u.User = nil
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), headers, nil
}

// Start begins the span of a request to an ingress. It continues the trace of
// the request's traceparent header and puts its own in place, which then travels
// to the backend. The context descends from the request's and carries the span.
func (t *Tracer) Start(r *http.Request, ingress string) (context.Context, *Span) {
	ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, method(r.Method)+" "+ingress, trace.WithSpanKind(trace.SpanKindServer))
	t.context.Inject(ctx, propagation.HeaderCarrier(r.Header))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("admitd.ingress", ingress),
			attribute.String("http.request.method", known(r.Method)),
			attribute.String("url.scheme", scheme(r)),
			attribute.String("url.path", valid(r.URL.Path)), // without the query, which may hold secrets
		)
	}
	return ctx, &Span{span: span}
}

// Close exports what waits, and nothing afterwards. It returns when that is
// done or ctx is.
func (t *Tracer) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: last export: %w", err)
	}
	return nil
}

// method returns a method that everybody knows, or "HTTP": clients choose what
// they send, and spans are grouped by name.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "HTTP"
}

// known is the method as an attribute: OpenTelemetry's word for those that not everybody
// knows.
func known(m string) string {
	if m = method(m); m == "HTTP" {
		return "_OTHER"
	}
	return m
}

// scheme returns how the request came.
func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// valid replaces what is not UTF-8: it would fail the export of a whole batch.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
