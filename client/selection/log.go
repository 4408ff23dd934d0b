package selection

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// The messages of a selection.
const (
	msgStarted   = "Server selection started"
	msgSucceeded = "Server selection succeeded"
	msgFailed    = "Server selection failed"
	msgWaiting   = "Waiting for suitable server to become available"
)

// failure is what becomes an [*Error].
type failure struct {
	op       Operation
	topology *Topology
	cause    error
	waited   time.Duration
}

// fail returns the error and logs it. The topology is a field of its own, so
// the failure leaves it out.
func (o *Options) fail(ctx context.Context, f failure) error {
	err := &Error{
		Operation: f.op, Criteria: criteria(&f.op, o.Filter),
		Topology: f.topology, Cause: f.cause, Waited: f.waited,
	}
	if o.enabled(ctx, slog.LevelDebug) {
		o.log(ctx, slog.LevelDebug, msgFailed, append(o.common(&f.op, f.topology), slog.String("failure", err.Reason())))
	}
	return err
}

func (o *Options) logStarted(ctx context.Context, op *Operation, t *Topology) {
	if o.enabled(ctx, slog.LevelDebug) {
		o.log(ctx, slog.LevelDebug, msgStarted, o.common(op, t))
	}
}

func (o *Options) logSucceeded(ctx context.Context, op *Operation, t *Topology, s *Server) {
	if !o.enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := o.common(op, t)
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil { // a path: it has no port
		host = s.Address
	}
	attrs = append(attrs, slog.String("server_host", host))
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, slog.Int("server_port", n))
	}
	o.log(ctx, slog.LevelDebug, msgSucceeded, attrs)
}

// logWaiting is called once per operation: what changes later follows from it.
func (o *Options) logWaiting(ctx context.Context, op *Operation, t *Topology, left time.Duration) {
	if o.enabled(ctx, slog.LevelInfo) {
		o.log(ctx, slog.LevelInfo, msgWaiting, append(o.common(op, t), slog.Int64("remaining_time_ms", left.Milliseconds())))
	}
}

func (o *Options) enabled(ctx context.Context, level slog.Level) bool {
	return o.Log != nil && o.Log.Enabled(ctx, level)
}

func (o *Options) log(ctx context.Context, level slog.Level, msg string, attrs []slog.Attr) {
	o.Log.LogAttrs(ctx, level, msg, attrs...) //nolint:sloglint // one of the four constants above
}

// common returns the fields that all four messages have.
func (o *Options) common(op *Operation, t *Topology) []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("component", "serverSelection"),
		slog.String("selector", criteria(op, o.Filter)),
		slog.String("operation", op.Name),
		slog.String("topology_description", t.String()))
	if op.ID != 0 {
		attrs = append(attrs, slog.Int64("operation_id", op.ID))
	}
	return attrs
}
