package client

import (
	"errors"
	"fmt"
)

// Error is what [Client.Do] returns for an operation that was retried in vain,
// or whose retry was possible and not permitted. It unwraps to the cause.
type Error struct {
	Operation string
	ID        uint64 // of the operation, as in events and logs
	Attempts  int    // that were made
	Why       Why    // why there was no further attempt
	Err       error  // the error of an attempt; see [Client.Do]
	Canceled  error  // ctx.Err() when the caller gave up before a retry, else nil
}

// Error names the operation, the attempts, why they ended, and the cause.
func (e *Error) Error() string {
	name := e.Operation
	if name == "" {
		name = "operation"
	}
	plural := "s"
	if e.Attempts == 1 {
		plural = ""
	}
	if e.Canceled != nil {
		return fmt.Sprintf("client: %s: %v before a retry, after %d attempt%s: %v", name, e.Canceled, e.Attempts, plural, e.Err)
	}
	return fmt.Sprintf("client: %s: gave up after %d attempt%s (%s): %v", name, e.Attempts, plural, e.Why, e.Err)
}

// Unwrap returns the cause, and ctx.Err() when the caller gave up.
func (e *Error) Unwrap() []error {
	if e.Canceled != nil {
		return []error{e.Err, e.Canceled}
	}
	return []error{e.Err}
}

// Timeout reports whether the cause says that it is a timeout, or the caller's
// deadline passed before a retry; url.Error asks for it.
func (e *Error) Timeout() bool {
	for _, err := range e.Unwrap() {
		if t, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](err); ok && t.Timeout() {
			return true
		}
	}
	return false
}
