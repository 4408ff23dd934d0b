package postgresgate

import "sync/atomic"

// counters are what the server counts.
type counters struct {
	connections, opaque, refused atomic.Int64
}

// Status is what a server knows of itself.
type Status struct {
	// Connections that are open.
	Connections int64 `json:"connections"`
	// Opaque counts connections whose encryption ends at the backend, so that
	// nothing of their work could be admitted.
	Opaque int64 `json:"opaque"`
	// Refused counts units of work that were refused.
	Refused int64 `json:"refused"`
}

// Status returns a snapshot. Safe for concurrent use.
func (s *Server) Status() Status {
	return Status{
		Connections: s.counters.connections.Load(), Opaque: s.counters.opaque.Load(), Refused: s.counters.refused.Load(),
	}
}
