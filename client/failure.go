package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/admitd/admitd/labels"
)

// Failure is what is known about one failed attempt. An operation returns a
// *Failure as its error, possibly wrapped, to tell the [Policy] what happened.
// The zero value is a failure that nothing is known about: it is not retried.
type Failure struct {
	Err error // the cause, which stays visible to errors.Is and errors.As; may be nil

	Overload  bool // carries the label SystemOverloadedError: back off
	Retryable bool // carries the label RetryableError: no work ran
	// Transient says that the caller knows another attempt to be safe although
	// the labels do not say so: a network error on a read, or on a write that
	// the server recognises when it comes again. See [Policy.OtherRetries].
	Transient bool
	// NoWrites says that nothing was changed, though the attempt may have
	// begun. It decides which error the caller gets, not whether to retry.
	NoWrites bool
	// Final says that the operation cannot be sent again, whatever the labels
	// say: its body was a stream and is gone.
	Final bool

	Reason      string        // short machine-readable cause, for logs; a labels.Reason when a gate refused
	Server      string        // who answered, when known
	RetryAfter  time.Duration // server's hint: no retry will succeed earlier; 0 = none
	BaseBackoff time.Duration // server's base for the exponential backoff; 0 = none
}

// Error returns the cause's text, or the reason when there is no cause.
func (f *Failure) Error() string {
	if f == nil {
		return "client: attempt failed"
	}
	if f.Err != nil {
		return f.Err.Error()
	}
	if f.Reason != "" {
		return "client: attempt failed: " + f.Reason
	}
	return "client: attempt failed"
}

// Unwrap returns the cause; a nil Failure has none.
func (f *Failure) Unwrap() error {
	if f == nil {
		return nil
	}
	return f.Err
}

// FromDocument returns the failure that a rejection document describes. The
// cause err may be nil; then the document's message is the error text.
func FromDocument(doc *labels.Document, err error) *Failure {
	if err == nil {
		err = fmt.Errorf("client: refused with code %d: %s", doc.Code, doc.Errmsg)
	}
	return &Failure{
		Err: err, Overload: doc.HasLabel(labels.SystemOverloaded), Retryable: doc.HasLabel(labels.Retryable),
		NoWrites: doc.HasLabel(labels.NoWritesPerformed), Reason: string(doc.Reason),
		RetryAfter: milliseconds(doc.RetryAfterMS), BaseBackoff: milliseconds(doc.BaseBackoffMS),
	}
}

// Labeled is an error that knows its labels, such as the errors of the MongoDB
// Go driver. [Client.Do] reads the labels of errors that have this method.
type Labeled interface {
	error
	HasErrorLabel(label string) bool
}

// Hinted is an error that knows when to come again, such as a refusal of the packages
// limiter and permits. [Client.Do] asks each [Labeled] error that has this method
// once. retryAfter is the wait before which no retry will succeed, baseBackoff the
// base of the exponential backoff; 0 = unknown.
type Hinted interface {
	error
	RetryHint() (retryAfter, baseBackoff time.Duration)
}

// FailureOf returns what an error says about itself: the *Failure in its chain,
// or the labels of a [Labeled] error with the waits of a [Hinted] one, or else a
// failure nothing is known about. The result is never nil; when it is the *Failure
// of the chain, it is the caller's own.
func FailureOf(err error) *Failure {
	f, own := labeled(err)
	if !own && f.Overload {
		if h, ok := errors.AsType[Hinted](err); ok {
			f.RetryAfter, f.BaseBackoff = h.RetryHint()
		}
	}
	return f
}

// labeled is [FailureOf] without the waits of a [Hinted] error. own reports whether
// the failure is the caller's.
func labeled(err error) (f *Failure, own bool) {
	if f, ok := errors.AsType[*Failure](err); ok && f != nil {
		return f, true
	}
	if l, ok := errors.AsType[Labeled](err); ok {
		return &Failure{
			Err: err, Overload: l.HasErrorLabel(labels.SystemOverloaded),
			Retryable: l.HasErrorLabel(labels.Retryable), NoWrites: l.HasErrorLabel(labels.NoWritesPerformed),
		}, false
	}
	return &Failure{Err: err}, false
}

// provesNoWork reports whether the failure shows that the attempt changed
// nothing.
func (f *Failure) provesNoWork() bool { return f.Retryable || f.NoWrites }

// milliseconds converts a count from the wire, holding it to [0, largest
// duration].
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}
