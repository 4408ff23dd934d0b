package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// ErrAborted is what [Hooks.Failed] is told when an attempt panicked or ended
// its goroutine. The panic itself goes on.
var ErrAborted = errors.New("client: attempt did not return")

// Options configure a [Client]. The zero value works: the [Driver] policy, no
// logging, no hooks.
type Options struct {
	Policy *Policy // copied; nil = Driver()
	Hooks  Hooks
	Log    *slog.Logger // one line per retry; nil = none
	// LogLevel is the level of that line, at most slog.LevelWarn: a retry is
	// normal. The zero value is slog.LevelInfo.
	LogLevel slog.Level
	// Classify reads errors that are neither a [*Failure] nor [Labeled], such as
	// those of another protocol's library; it returns nil for those it does not know.
	// It is asked first. It must be safe for concurrent use.
	Classify func(error) *Failure
}

// Client runs operations under one policy and one retry budget. Make one per
// service, and keep it: the budget lives as long as the client. It is safe for
// concurrent use and has nothing to close.
type Client struct {
	policy   Policy
	budget   *Budget
	hooks    Hooks
	observed bool // some attempt hook is set
	log      *slog.Logger
	level    slog.Level
	classify func(error) *Failure

	operations atomic.Uint64
	retries    atomic.Uint64
	gaveUp     atomic.Uint64
}

// Stats counts since the client was made. Attempts per operation is
// (Operations + Retries) / Operations.
type Stats struct {
	Operations uint64 // begun
	Retries    uint64 // attempts after the first of their operation
	GaveUp     uint64 // operations that failed although their failure could be retried
	Budget     BudgetStats
}

// New returns a client. It fails when the policy is out of range or the log
// level is above warn.
func New(o Options) (*Client, error) {
	policy := Driver()
	if o.Policy != nil {
		policy = *o.Policy
	}
	if o.LogLevel > slog.LevelWarn {
		return nil, fmt.Errorf("client: LogLevel is %v; want at most %v", o.LogLevel, slog.LevelWarn)
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	return &Client{
		policy: policy, budget: policy.NewBudget(), hooks: o.Hooks, observed: o.Hooks.any(),
		log: o.Log, level: o.LogLevel, classify: o.Classify,
	}, nil
}

// Policy returns a copy of the client's policy.
func (c *Client) Policy() Policy { return c.policy }

// Budget returns the client's retry budget, nil when it has none.
func (c *Client) Budget() *Budget { return c.budget }

// Stats returns the client's counters.
func (c *Client) Stats() Stats {
	return Stats{
		Operations: c.operations.Load(), Retries: c.retries.Load(), GaveUp: c.gaveUp.Load(),
		Budget: c.budget.Stats(),
	}
}

// Do runs an operation, again after each failure the policy retries, and
// returns nil once an attempt succeeded. It waits between attempts, never past
// the deadline of ctx.
//
// A failure that cannot be retried is returned as Run gave it. When retries were
// made, or were possible and not permitted, the error is an [*Error] around the
// last failure; of a write or generic command, around the last that may have
// changed something. When ctx ends before a retry that was due, the error matches both the cause and
// ctx.Err().
func (c *Client) Do(ctx context.Context, op Operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a := &Attempt{ID: c.operations.Add(1), retarget: c.policy.Retarget, state: State{Kind: op.Kind}}
	d, err := c.try(ctx, &op, a)
	if err == nil {
		return nil
	}
	return c.retry(ctx, &op, a, d, err)
}

// retry goes on after the first attempt failed.
func (c *Client) retry(ctx context.Context, op *Operation, a *Attempt, d Decision, err error) error {
	attempts := 1
	kept := err
	for d.Retry {
		if waitErr := pause(ctx, d.Wait); waitErr != nil {
			c.abandon(a)
			return &Error{Operation: op.Name, ID: a.ID, Attempts: attempts, Why: WhyCanceled, Err: kept, Canceled: waitErr}
		}
		c.retries.Add(1)
		attempts++
		if d, err = c.try(ctx, op, a); err == nil {
			return nil
		}
		kept = c.keep(op.Kind, kept, err)
	}
	if d.Why == WhyCanceled {
		return &Error{Operation: op.Name, ID: a.ID, Attempts: attempts, Why: d.Why, Err: kept, Canceled: ctx.Err()}
	}
	denied := d.Why == WhyMaxRetries || d.Why == WhyDeadline || d.Why == WhyBudget || d.Why == WhySwitchedOff
	if denied {
		c.gaveUp.Add(1)
	}
	if attempts == 1 && !denied {
		return err
	}
	return &Error{Operation: op.Name, ID: a.ID, Attempts: attempts, Why: d.Why, Err: kept}
}

// try makes one attempt and settles it: the budget, the hooks and the log.
func (c *Client) try(ctx context.Context, op *Operation, a *Attempt) (Decision, error) {
	a.Server = ""
	var start time.Time
	if c.observed {
		start = time.Now()
		e := c.event(op, a)
		call(ctx, c.hooks.Started, &e)
		returned := false
		defer func() {
			if !returned {
				e := c.event(op, a)
				e.Elapsed, e.Err, e.Decision.Why = time.Since(start), ErrAborted, WhyAborted
				call(ctx, c.hooks.Failed, &e)
			}
		}()
		err := op.Run(ctx, a)
		returned = true
		return c.settle(ctx, op, a, start, err)
	}
	return c.settle(ctx, op, a, start, op.Run(ctx, a))
}

// settle ends an attempt that returned err.
func (c *Client) settle(ctx context.Context, op *Operation, a *Attempt, start time.Time, err error) (Decision, error) {
	before := c.balance()
	if err == nil {
		c.policy.Done(&a.state, c.budget)
		if c.observed {
			e := c.event(op, a)
			e.Elapsed = time.Since(start)
			call(ctx, c.hooks.Succeeded, &e)
		}
		c.reportBudget(before)
		return Decision{}, nil
	}
	e := c.event(op, a)
	f := c.failure(err)
	if a.Server == "" {
		e.Server = f.Server
	}
	d := c.decide(ctx, a, f)
	if d.Retry && e.Server != "" && !slices.Contains(a.failed, e.Server) {
		a.failed = append(a.failed, e.Server)
	}
	e.Err, e.Overload, e.Reason, e.Decision = err, f.Overload, f.Reason, d
	if c.observed {
		e.Elapsed = time.Since(start)
		call(ctx, c.hooks.Failed, &e)
	}
	c.reportBudget(before)
	if d.Retry {
		c.logRetry(ctx, &e)
	}
	return d, err
}

// decide asks the policy, unless the caller has given up.
func (c *Client) decide(ctx context.Context, a *Attempt, f *Failure) Decision {
	left := NoDeadline
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	d := c.policy.Next(&a.state, f, left, c.budget)
	if d.Retry && ctx.Err() != nil {
		c.policy.Abandon(&a.state, c.budget)
		return Decision{Why: WhyCanceled}
	}
	return d
}

// failure reads an error.
func (c *Client) failure(err error) *Failure {
	if c.classify != nil {
		if f := c.classify(err); f != nil {
			return f
		}
	}
	return FailureOf(err)
}

// provesNoWork reports whether an error shows that its attempt changed nothing. It does
// not ask for a wait, of which the one who refused keeps count.
func (c *Client) provesNoWork(err error) bool {
	if c.classify != nil {
		if f := c.classify(err); f != nil {
			return f.provesNoWork()
		}
	}
	f, _ := labeled(err)
	return f.provesNoWork()
}

// keep returns which of two errors the caller gets. For a read that is the
// later one. For a write, and for a generic command which counts as one, an
// attempt that may have changed something must not be hidden behind a later
// refusal which says that nothing happened: then the earlier error stays.
func (c *Client) keep(k Kind, earlier, later error) error {
	if k != Read && c.provesNoWork(later) && !c.provesNoWork(earlier) {
		return earlier
	}
	return later
}

// event returns what is the same in all events of an attempt.
func (c *Client) event(op *Operation, a *Attempt) Event {
	return Event{OperationID: a.ID, Operation: op.Name, Kind: op.Kind, Attempt: a.Number(), Server: a.Server}
}

// abandon gives back the token of a retry that is not made.
func (c *Client) abandon(a *Attempt) {
	before := c.balance()
	c.policy.Abandon(&a.state, c.budget)
	c.reportBudget(before)
}

// balance returns the budget's tokens when somebody wants to know of changes.
func (c *Client) balance() float64 {
	if c.budget == nil || c.hooks.Budget == nil {
		return 0
	}
	return c.budget.Tokens()
}

// reportBudget tells the hook when the balance is no longer what it was.
func (c *Client) reportBudget(before float64) {
	if c.budget == nil || c.hooks.Budget == nil {
		return
	}
	if now := c.budget.Tokens(); now != before {
		c.hooks.Budget(now)
	}
}

// pause waits for d, or until ctx ends and then returns its error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
