package client

import (
	"context"
	"log/slog"
	"time"
)

// Hooks are told about every attempt. Any of them may be nil. They run on the
// goroutine of the operation and must not block; they are called concurrently
// for concurrent operations. Each Started is followed by exactly one of
// Succeeded and Failed, before the next Started of the same operation.
type Hooks struct {
	Started   func(ctx context.Context, e Event)
	Succeeded func(ctx context.Context, e Event)
	Failed    func(ctx context.Context, e Event)
	// Budget is told the balance, in tokens, when it is another after an attempt than
	// before. Operations that run at once may report each other's changes, and out of
	// order; [Client.Budget] has the present balance.
	Budget func(tokens float64)
}

// Event describes an attempt.
type Event struct {
	OperationID uint64 // the same for all attempts of one operation
	Operation   string
	Kind        Kind
	Attempt     int    // from 0
	Server      string // empty when unknown, as it is when an attempt starts

	// Set by Succeeded and Failed.
	Elapsed time.Duration

	// Set by Failed.
	Err      error
	Overload bool
	Reason   string   // see [Failure]
	Decision Decision // what happens next
}

// any reports whether some attempt hook is set.
func (h *Hooks) any() bool { return h.Started != nil || h.Succeeded != nil || h.Failed != nil }

// call calls a hook that may be nil.
func call(ctx context.Context, hook func(context.Context, Event), e *Event) {
	if hook != nil {
		hook(ctx, *e)
	}
}

// logRetry writes the one wait queue that each retry gets.
func (c *Client) logRetry(ctx context.Context, e *Event) {
	if c.log == nil || !c.log.Enabled(ctx, c.level) {
		return
	}
	c.log.LogAttrs(ctx, c.level, "retrying operation",
		slog.String("operation", e.Operation),
		slog.Uint64("operation_id", e.OperationID),
		slog.String("kind", e.Kind.String()),
		slog.String("reason", e.Reason),
		slog.Int("attempt", e.Attempt+1),
		slog.Duration("wait", e.Decision.Wait),
		slog.String("server", e.Server),
		slog.Any("error", e.Err),
	)
}
