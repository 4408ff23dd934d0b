package postgresgate

import (
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
)

// counters are what the server counts.
type counters struct {
	opaque, open   atomic.Int64
	opaqueOpen     atomic.Int64
	units, refused [sqltext.OpFree + 1]atomic.Int64 // by operation
}

// Status is what a server knows of itself.
type Status struct {
	// Connections that are open.
	Connections int64 `json:"connections"`
	// Opaque counts connections whose encryption ends at the backend, so that
	// nothing of their work could be admitted.
	Opaque int64 `json:"opaque"`
	// OpaqueOpen is how many of these are open.
	OpaqueOpen int64 `json:"opaqueOpen"`
	// InTransaction is how many sessions have a transaction open. They may hold
	// locks while nobody works for them.
	InTransaction int64 `json:"inTransaction"`
	// Suspended is how many sessions hold no permit while a statement of theirs
	// waits for a lock at the server, or has lasted much longer than usual.
	Suspended int64 `json:"suspended"`
	// ActivityErrors counts questions to servers, who waits for a lock, that
	// failed.
	ActivityErrors int64 `json:"activityErrors"`
	// Refused counts units of work that were refused.
	Refused int64 `json:"refused"`
	// Operations count units of work, decided about outside a transaction, by
	// what they do; those that never occurred are missing.
	Operations map[string]OperationStatus `json:"operations"`
}

// OperationStatus counts the units of one operation.
type OperationStatus struct {
	Decided int64 `json:"decided"`
	Refused int64 `json:"refused"`
}

// Status returns a snapshot. Safe for concurrent use.
func (s *Server) Status() Status {
	c := &s.counters
	st := Status{
		Suspended: s.suspends.now.Load(), ActivityErrors: s.suspends.errors.Load(),
		Connections: s.sessions.Sessions(), Opaque: c.opaque.Load(), OpaqueOpen: c.opaqueOpen.Load(), InTransaction: c.open.Load(), Operations: map[string]OperationStatus{},
	}
	for op := range c.units {
		of := OperationStatus{Decided: c.units[op].Load(), Refused: c.refused[op].Load()}
		st.Refused += of.Refused
		if of.Decided > 0 {
			st.Operations[sqltext.Operation(op).String()] = of
		}
	}
	return st
}

// opens counts a session's transaction when it begins or ends, with before and
// after as its status.
func (c *counters) opens(before, after byte) {
	in := func(status byte) bool { return status == statusInTxn || status == statusFailed }
	switch {
	case in(after) && !in(before):
		c.open.Add(1)
	case in(before) && !in(after):
		c.open.Add(-1)
	}
}
