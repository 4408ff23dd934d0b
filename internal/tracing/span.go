package tracing

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/admitd/admitd/limiter"
)

// Span follows one request. It belongs to the goroutine that serves it.
type Span struct{ span trace.Span }

// Result is how a request ended.
type Result struct {
	Status    int           // that was answered; 0 = none
	Partition string        // that granted the permit or refused it
	Wait      time.Duration // for the decision
	Outcome   limiter.Outcome
	// Err is the [*limiter.Rejection] of a refused request, what went wrong
	// with another, or nil.
	Err error
	// Admitted says that the request held a permit.
	Admitted bool
}

// TraceID returns the trace that the span is exported with, "" when it is not
// exported.
func (s *Span) TraceID() string {
	if c := s.span.SpanContext(); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// End ends the span. Only the first call counts.
func (s *Span) End(r Result) {
	if !s.span.IsRecording() {
		return
	}
	s.span.SetAttributes(
		attribute.String("admitd.partition", valid(r.Partition)),
		attribute.Float64("admitd.wait_seconds", r.Wait.Seconds()),
		attribute.String("admitd.decision", decision(&r)),
	)
	if r.Status > 0 {
		s.span.SetAttributes(attribute.Int("http.response.status_code", r.Status))
	}
	if rej, ok := errors.AsType[*limiter.Rejection](r.Err); ok {
		s.span.SetAttributes(attribute.String("admitd.reason", string(rej.Reason)))
	}
	if r.Admitted {
		s.span.SetAttributes(attribute.String("admitd.outcome", r.Outcome.String()))
	}
	// By OpenTelemetry's conventions a status of 4xx is no error of a server.
	switch {
	case r.Status >= http.StatusBadRequest && r.Status < http.StatusInternalServerError:
	case r.Err != nil:
		s.span.SetStatus(codes.Error, valid(r.Err.Error()))
	case r.Status >= http.StatusInternalServerError:
		s.span.SetStatus(codes.Error, "")
	}
	if kind := errorType(&r); kind != "" {
		s.span.SetAttributes(attribute.String("error.type", kind))
	}
	s.span.End()
}

// errorType names why the span is an error, from a closed set; "" = it is none.
func errorType(r *Result) string {
	switch {
	case r.Status >= http.StatusInternalServerError:
		return strconv.Itoa(r.Status)
	case r.Status > 0 || r.Err == nil:
		return ""
	}
	return decision(r)
}

// decision names what came of the request.
func decision(r *Result) string {
	switch {
	case r.Admitted:
		return "admitted"
	case errors.Is(r.Err, limiter.ErrRejected):
		return "rejected"
	case r.Status > 0:
		return "invalid" // answered by the gate, since it cannot be forwarded
	default:
		return "abandoned" // the client went away while it waited
	}
}
