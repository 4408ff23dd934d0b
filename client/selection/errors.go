package selection

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNoServer is matched by every error of a selection.
var ErrNoServer = errors.New("selection: no suitable server")

// ErrTooManyWaiting is matched when a selection would have to wait and as many
// as may wait already do.
var ErrTooManyWaiting = errors.New("selection: too many operations wait for a server")

// maxReasons bounds how many servers an error quotes.
const maxReasons = 8

// Error says why no server was selected. It matches [ErrNoServer] and what
// ended the selection: the error of the context, [ErrPreference],
// [ErrIncompatible], [ErrTooManyWaiting], or, when nothing answers, what the
// servers failed with.
type Error struct {
	Operation Operation
	Criteria  string        // what was asked for, in words
	Topology  *Topology     // the picture that did not suffice
	Waited    time.Duration // how long selection took
	Cause     error         // why it ended; nil = the selection timeout
}

// Error says it all: operation, time, reason and the state of every server.
func (e *Error) Error() string {
	name := e.Operation.Name
	if name == "" {
		name = "operation"
	}
	return fmt.Sprintf("selection: no server for %s after %s: %s; topology %s", name, e.Waited.Round(time.Millisecond), e.Reason(), e.Topology)
}

// Reason says why without describing the topology.
func (e *Error) Reason() string {
	why := e.why()
	if e.Cause == nil {
		return why
	}
	if errors.Is(e.Cause, ErrPreference) || errors.Is(e.Cause, ErrIncompatible) {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%s (%s)", why, e.Cause)
}

// why follows the specification: servers that answer but do not suit, one
// error that all share, or all their errors.
func (e *Error) why() string {
	if e.Topology.available() {
		return "no servers are suitable for " + e.Criteria
	}
	reasons, more := e.Topology.failures()
	switch {
	case len(reasons) == 0:
		return "no server was reached yet, wanted for " + e.Criteria
	case more > 0:
		return fmt.Sprintf("%s, and %d more", strings.Join(reasons, ", "), more)
	}
	return strings.Join(reasons, ", ")
}

// Unwrap returns what the error matches.
func (e *Error) Unwrap() []error {
	all := []error{ErrNoServer}
	if e.Cause != nil {
		all = append(all, e.Cause)
	}
	if e.Topology.available() {
		return all
	}
	for _, s := range e.Topology.Servers {
		if s.Err != nil && len(all) < maxReasons {
			all = append(all, s.Err)
		}
	}
	return all
}

// failures returns what the servers failed with: once when all failed alike,
// else per address, and how many were left out.
func (t *Topology) failures() (reasons []string, more int) {
	same := true
	var first string
	for _, s := range t.Servers {
		if s.Err == nil {
			same = false
			continue
		}
		if first == "" {
			first = s.Err.Error()
		}
		same = same && s.Err.Error() == first
		if len(reasons) < maxReasons {
			reasons = append(reasons, s.Address+": "+s.Err.Error())
		} else {
			more++
		}
	}
	if same && first != "" {
		return []string{first}, 0
	}
	return reasons, more
}

// criteria puts into words what is asked for.
func criteria(op *Operation, filter Filter) string {
	var b strings.Builder
	if op.Write {
		b.WriteString("writes")
	} else {
		b.WriteString("reads with preference " + op.Preference.String())
	}
	if len(op.Deprioritized) > 0 {
		b.WriteString(", avoiding " + strings.Join(op.Deprioritized, " "))
	}
	if filter != nil {
		b.WriteString(", custom selector")
	}
	return b.String()
}
