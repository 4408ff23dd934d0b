package protocol

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/internal/tracing"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

// Traced returns what gives an HTTP ingress who makes a span of each request and
// ties it to the latency histogram; nobody while tracer returns nil.
func Traced(tracer func() *tracing.Tracer, m *observe.Metrics) func(ingress string) httpgate.Observer {
	return func(ingress string) httpgate.Observer {
		t := tracer()
		if t == nil {
			return nil
		}
		return &traces{tracer: t, metrics: m, ingress: ingress}
	}
}

// traces makes a span of each request of one ingress and ties it to the latency
// histogram.
type traces struct {
	tracer  *tracing.Tracer
	metrics *observe.Metrics
	ingress string
}

// Begin implements [httpgate.Observer].
func (t *traces) Begin(r *http.Request) (context.Context, httpgate.Span) {
	ctx, span := t.tracer.Start(r, t.ingress)
	return ctx, &tracedRequest{traces: t, span: span, start: time.Now()}
}

// tracedRequest is one request of a [traces].
type tracedRequest struct {
	*traces

	span  *tracing.Span
	start time.Time
}

// End implements [httpgate.Span].
func (t *tracedRequest) End(res httpgate.Result) {
	admitted := res.Label != "" && !errors.Is(res.Err, limiter.ErrRejected)
	if admitted { // before the span ends, whose identity it needs
		held := max(time.Since(t.start)-res.Wait, 0)
		t.metrics.Exemplar(t.ingress, res.Label, res.Outcome, held, t.span.TraceID())
	}
	t.span.End(tracing.Result{
		Status: res.Status, Partition: res.Partition, Wait: res.Wait, Outcome: res.Outcome, Err: res.Err, Admitted: admitted,
	})
}
