package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
	"github.com/admitd/admitd/tracing"
)

// lastExport is how long the spans that wait at the end have.
const lastExport = 3 * time.Second

// newTracer returns the tracer of the configuration; nil = nothing is traced.
func newTracer(ctx context.Context, c *config.Tracing, version string, log *slog.Logger) (*tracing.Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // nil means no tracing, as documented
	}
	headers := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		headers[name] = value.Reveal()
	}
	return tracing.New(ctx, tracing.Options{
		Endpoint: c.Endpoint, SampleRatio: c.SampleRatio, Headers: headers, Version: version, Log: log,
	})
}

// closeTracer exports what waits.
func (sh *shared) closeTracer(ctx context.Context) {
	if sh.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
	defer cancel()
	if err := sh.tracer.Close(ctx); err != nil {
		sh.log.Warn("the last traces were lost", slog.Any("error", err))
	}
}

// httpObserver returns who follows the requests of an HTTP ingress; nil =
// nobody.
func (sh *shared) httpObserver(ingress string) httpgate.Observer {
	if sh.tracer == nil {
		return nil
	}
	return &traces{tracer: sh.tracer, metrics: sh.metrics, ingress: ingress}
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
