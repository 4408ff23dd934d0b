package client

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// NoDeadline is the time left when the caller set no deadline.
const NoDeadline time.Duration = math.MaxInt64

// Policy decides about retries. It is plain data and keeps no state: whoever
// runs an operation holds a [State], and a [Budget] when retries are budgeted.
// It never waits and reads no clock, so a simulation in virtual time runs the
// same code as [Client.Do]. Safe for concurrent use unless it is being changed.
//
// The zero value retries nothing. Begin with [Seed], [Driver] or [SlowDown] and
// change fields.
type Policy struct {
	// MaxRetries bounds the retries of an operation that met an overload, of
	// whatever kind those retries are; >= 0. An operation that made progress
	// ([State.Progress]) counts anew.
	MaxRetries int
	// OtherRetries bounds the retries of [Failure.Transient] failures while no
	// overload was met. Below zero: no bound but the deadline, and 1 where there is
	// none. Such retries come without a wait unless BackoffAlways is set, so an
	// unbounded number of them is for attempts that take their time.
	OtherRetries int

	Backoff Backoff // wait before a retry; nil = none
	// BackoffAlways waits before every retry. Otherwise only overloads are waited for.
	BackoffAlways bool
	// ServerBase lets a server's baseBackoffMS replace the base of Backoff.
	ServerBase bool
	// HintSlack is how much longer than its own delay the client waits when the
	// server's hint asks for it: the hint is held to [delay, delay+HintSlack]. Zero
	// ignores hints.
	HintSlack time.Duration
	// MinAttempt is the time that must be left before the deadline when a retry
	// begins, >= 0. A hint is shortened to leave it; when the own delay does not leave
	// it, or when nothing would be left, there is no retry.
	MinAttempt time.Duration

	RetryReads  bool // reads may be retried
	RetryWrites bool // writes may be retried; a [Generic] operation needs both
	// Retarget asks server selection to avoid servers that failed this operation,
	// in every topology. Without it they are avoided in sharded ones only.
	Retarget bool

	// AdaptiveRetries gives each client a retry [Budget].
	AdaptiveRetries bool
	// BudgetCapacity is the budget's size in tokens, also its first balance.
	BudgetCapacity float64
	// BudgetReturn is what each success earns, in tokens, in [0, 1].
	BudgetReturn float64

	// Rand returns a number in [0, 1). It must be safe for concurrent use when the
	// policy is. Nil = math/rand/v2.
	Rand func() float64
}

// Why says why an operation is retried or not. The set is closed.
type Why string

// The reasons of a [Decision].
const (
	WhyRetry         Why = "retry"          // it is retried
	WhyNotRetryable  Why = "not_retryable"  // the failure does not allow it
	WhyNotReplayable Why = "not_replayable" // the operation cannot be sent again
	WhyExempt        Why = "exempt"         // operations of this kind are never retried
	WhySwitchedOff   Why = "switched_off"   // RetryReads or RetryWrites is off
	WhyMaxRetries    Why = "max_retries"    // as often as allowed already
	WhyDeadline      Why = "deadline"       // the deadline leaves no time
	WhyBudget        Why = "budget"         // the retry budget is empty
	WhyCanceled      Why = "canceled"       // the caller gave up
	WhyAborted       Why = "aborted"        // the attempt panicked
)

// Decision is the answer of [Policy.Next].
type Decision struct {
	Retry bool
	Wait  time.Duration // before the retry, >= 0
	Why   Why
}

// State is what a policy remembers of one operation. The zero value, with a
// Kind, is ready for its first attempt. Not safe for concurrent use.
type State struct {
	Kind Kind

	attempt    int  // the attempt in progress, from 0
	floor      int  // the attempt that last made progress
	overloaded bool // an overload was met
	spent      bool // the retry in progress spent a token
}

// Attempt returns the number of the attempt in progress, from 0.
func (s *State) Attempt() int { return s.attempt }

// Progress notes that the attempt in progress achieved a part of the operation
// that will not be sent again. What is left counts its retries anew.
func (s *State) Progress() { s.floor = s.attempt }

// Next decides after a failed attempt. Left is the time until the caller's
// deadline, or [NoDeadline]. The budget b may be nil, which grants everything.
//
// When the decision is to retry, a token may have been spent for it, and s
// counts the next attempt; if that attempt then cannot be made, call
// [Policy.Abandon].
func (p *Policy) Next(s *State, f *Failure, left time.Duration, b *Budget) Decision {
	s.spent = false
	if s.Kind == Exempt {
		return Decision{Why: WhyExempt}
	}
	if s.attempt > 0 && !f.Overload {
		b.Deposit(1) // the server was healthy enough to fail in its own way
	}
	s.overloaded = s.overloaded || f.Overload
	if why := p.eligible(s.Kind, f); why != WhyRetry {
		return Decision{Why: why}
	}
	n := s.attempt - s.floor + 1
	if n > p.allowed(s, left) {
		return Decision{Why: WhyMaxRetries}
	}
	wait, ok := p.wait(n, f, left)
	if !ok {
		return Decision{Why: WhyDeadline}
	}
	if f.Overload {
		if !b.Consume(1) {
			return Decision{Why: WhyBudget}
		}
		s.spent = true
	}
	s.attempt++
	return Decision{Retry: true, Wait: wait, Why: WhyRetry}
}

// Done settles the budget after an attempt succeeded.
func (p *Policy) Done(s *State, b *Budget) {
	switch {
	case s.Kind == Exempt:
	case s.attempt > 0:
		b.Deposit(p.BudgetReturn + 1)
	default:
		b.Deposit(p.BudgetReturn)
	}
}

// Abandon gives back the token of a retry that was decided and never sent,
// because the caller gave up while waiting.
func (p *Policy) Abandon(s *State, b *Budget) {
	if s.spent {
		s.spent = false
		b.Deposit(1)
	}
}

// NewBudget returns the budget that one client of this policy has: nil unless
// AdaptiveRetries is set.
func (p *Policy) NewBudget() *Budget {
	if !p.AdaptiveRetries {
		return nil
	}
	return NewBudget(p.BudgetCapacity)
}

// MaxSleep returns the longest that one operation without progress can wait in
// total, whatever the server answers. It does not bound an operation with
// OtherRetries below zero and BackoffAlways.
func (p *Policy) MaxSleep() time.Duration {
	if p.Backoff == nil && p.HintSlack <= 0 {
		return 0
	}
	base := time.Duration(0)
	if p.ServerBase {
		base = math.MaxInt64
	}
	total := time.Duration(0)
	for n := 1; n <= max(p.MaxRetries, p.OtherRetries); n++ {
		if p.Backoff != nil {
			total = addClamped(total, p.Backoff.Delay(n, base, 1))
		}
		total = addClamped(total, max(p.HintSlack, 0))
	}
	return total
}

// Validate reports every field that is out of range.
func (p *Policy) Validate() error {
	var errs []error
	if p.MaxRetries < 0 {
		errs = append(errs, fmt.Errorf("client: MaxRetries is %d; want >= 0", p.MaxRetries))
	}
	if p.HintSlack < 0 || p.MinAttempt < 0 {
		errs = append(errs, fmt.Errorf("client: HintSlack is %v, MinAttempt is %v; want >= 0", p.HintSlack, p.MinAttempt))
	}
	if p.AdaptiveRetries && !(p.BudgetCapacity >= 1 && p.BudgetCapacity <= math.MaxInt32) {
		errs = append(errs, fmt.Errorf("client: BudgetCapacity is %v; want 1 or more, at most %d", p.BudgetCapacity, math.MaxInt32))
	}
	if p.AdaptiveRetries && !(p.BudgetReturn >= 0 && p.BudgetReturn <= 1) {
		errs = append(errs, fmt.Errorf("client: BudgetReturn is %v; want 0 to 1", p.BudgetReturn))
	}
	return errors.Join(append(errs, validateBackoff(p.Backoff))...)
}

// validateBackoff checks the backoffs of this package; others check themselves.
func validateBackoff(b Backoff) error {
	switch b := b.(type) {
	case Exponential:
		if b.Base < 0 || b.Max < 0 || b.Shift < 0 {
			return fmt.Errorf("client: Exponential is %+v; want no field below zero", b)
		}
	case Interval:
		if b.Initial < 0 || b.Max < 0 || b.Jitter < 0 || !(b.Multiplier >= 1) {
			return fmt.Errorf("client: Interval is %+v; want Multiplier >= 1 and no field below zero", b)
		}
	}
	return nil
}

// eligible reports whether this failure of this kind of operation may be
// retried at all: [WhyRetry], or why not.
func (p *Policy) eligible(k Kind, f *Failure) Why {
	refused := f.Overload && f.Retryable
	// A generic command is not retryable under the other policies, because
	// nobody knows what it does.
	if !refused && (!f.Transient || k == Generic) {
		return WhyNotRetryable
	}
	if f.Final {
		return WhyNotReplayable
	}
	on := p.RetryReads && p.RetryWrites
	switch k {
	case Read:
		on = p.RetryReads
	case Write:
		on = p.RetryWrites
	case Generic, Exempt:
	}
	if !on {
		return WhySwitchedOff
	}
	return WhyRetry
}

// allowed returns how many retries the operation may have, given what it met.
func (p *Policy) allowed(s *State, left time.Duration) int {
	switch {
	case s.overloaded:
		return p.MaxRetries
	case p.OtherRetries >= 0:
		return p.OtherRetries
	case left == NoDeadline:
		return 1
	}
	return math.MaxInt
}

// wait returns how long to wait before retry n, and whether the deadline leaves
// time for it.
func (p *Policy) wait(n int, f *Failure, left time.Duration) (time.Duration, bool) {
	own, wait := time.Duration(0), time.Duration(0)
	if f.Overload || p.BackoffAlways {
		own = p.delay(n, f)
		wait = max(own, min(f.RetryAfter, addClamped(own, max(p.HintSlack, 0))))
	}
	if left == NoDeadline {
		return wait, true
	}
	room := left - max(p.MinAttempt, 0)
	if own > room {
		return 0, false
	}
	wait = min(wait, room)
	// A retry that begins at the deadline has no time: bail out now, while the
	// caller can still do something else.
	return wait, wait < left
}

// delay returns the client's own delay before retry n.
func (p *Policy) delay(n int, f *Failure) time.Duration {
	if p.Backoff == nil {
		return 0
	}
	base := time.Duration(0)
	if p.ServerBase {
		base = f.BaseBackoff
	}
	random := p.Rand
	if random == nil {
		random = rand.Float64 // spreads retries; nothing secret depends on it
	}
	return max(p.Backoff.Delay(n, base, random()), 0)
}
