package mongogate

import (
	"math"
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

// Status is what a [Server] has counted, under the names that serverStatus of
// a MongoDB server uses. Counters start at zero with the process.
type Status struct {
	RequestRateLimiter RequestRateLimiterStatus `json:"ingressRequestRateLimiter"`
	Clients            ClientStatus             `json:"clients"`
	// Connections that are open now.
	Connections int64 `json:"connectionsCurrent"`
	// OpenCursors and OpenTransactions are those that a drain waits for.
	OpenCursors      int `json:"openCursors"`
	OpenTransactions int `json:"openTransactions"`
	// Unauthenticated says whether operations before a login cost tokens by now:
	// gate or pass.
	Unauthenticated string `json:"unauthenticated"`
}

// RequestRateLimiterStatus counts commands. Attempted leaves out exempted ones.
type RequestRateLimiterStatus struct {
	AttemptedAdmissions  int64 `json:"attemptedAdmissions"`
	SuccessfulAdmissions int64 `json:"successfulAdmissions"`
	RejectedAdmissions   int64 `json:"rejectedAdmissions"`
	ExemptedAdmissions   int64 `json:"exemptedAdmissions"`
	// TotalAvailableTokens are left in the gate's bucket, negative when owed; nil
	// = no rate is set.
	TotalAvailableTokens *float64 `json:"totalAvailableTokens,omitempty"`
	// CurrentQueueDepth is how many commands wait for a token or a permit.
	CurrentQueueDepth int `json:"currentQueueDepth"`
	// InterruptedInQueue are commands whose client went away as they waited.
	InterruptedInQueue int64 `json:"interruptedInQueue"`
	// FireAndForgetDropped are the rejected ones that got no reply.
	FireAndForgetDropped int64 `json:"fireAndForgetDropped"`
	// RepliesSwallowed are replies of the backend to commands that wanted none.
	RepliesSwallowed int64 `json:"repliesSwallowed"`
	// BackendOverloadErrors are errors of the backend that mean overload.
	BackendOverloadErrors int64 `json:"backendOverloadErrors"`
}

// ClientStatus counts connections by what their first hello announced.
type ClientStatus struct {
	Silent   int64 `json:"backpressureNone"`
	Retrying int64 `json:"backpressureTrue"`
	Hinted   int64 `json:"backpressure2"`
}

// counters are the live form of Status.
type counters struct {
	attempted, successful, rejected, exempted   atomic.Int64
	interrupted, dropped, swallowed, overloaded atomic.Int64
	generation                                  [3]atomic.Int64
}

// Status returns a snapshot. It is safe for concurrent use.
func (s *Server) Status() Status {
	c := &s.counters
	cursors, txns := s.ledger.open(s.gate.Now())
	st := Status{
		RequestRateLimiter: RequestRateLimiterStatus{
			AttemptedAdmissions: c.attempted.Load(), SuccessfulAdmissions: c.successful.Load(),
			RejectedAdmissions: c.rejected.Load(), ExemptedAdmissions: c.exempted.Load(),
			InterruptedInQueue: c.interrupted.Load(), FireAndForgetDropped: c.dropped.Load(),
			RepliesSwallowed: c.swallowed.Load(), BackendOverloadErrors: c.overloaded.Load(),
		},
		Clients: ClientStatus{
			Silent: c.generation[Silent].Load(), Retrying: c.generation[Retrying].Load(), Hinted: c.generation[Hinted].Load(),
		},
		Connections: s.sessions.Sessions(),
		OpenCursors: cursors, OpenTransactions: txns, Unauthenticated: s.login.inForce(s.current.Load().Unauthenticated),
	}
	if g, ok := s.gate.(interface {
		Queue() (int, *limiter.BucketStatus)
	}); ok {
		r := &st.RequestRateLimiter
		waiting, bucket := g.Queue()
		if r.CurrentQueueDepth = waiting; bucket != nil {
			r.TotalAvailableTokens = &bucket.Tokens
		}
	}
	return st
}

// EstablishmentStatus counts connections under the names of serverStatus'
// queues.ingressSessionEstablishment.
type EstablishmentStatus struct {
	AttemptedAdmissions  uint64   `json:"attemptedAdmissions"`
	SuccessfulAdmissions uint64   `json:"successfulAdmissions"`
	RejectedAdmissions   uint64   `json:"rejectedAdmissions"`
	InterruptedInQueue   uint64   `json:"interruptedInQueue"`
	CurrentQueueDepth    int64    `json:"currentQueueDepth"`
	TotalAvailableTokens *float64 `json:"totalAvailableTokens,omitempty"` // nil = no rate is set
}

// Establishment returns what a door has counted under the server's names.
func Establishment(door ingress.Status) EstablishmentStatus {
	e := EstablishmentStatus{SuccessfulAdmissions: door.Accepted, CurrentQueueDepth: door.Queued}
	for why, n := range door.Refused {
		if ingress.Refusal(why) == ingress.Abandoned {
			e.InterruptedInQueue = n
		} else {
			e.RejectedAdmissions += n
		}
	}
	e.AttemptedAdmissions = e.SuccessfulAdmissions + e.RejectedAdmissions + e.InterruptedInQueue
	if !math.IsInf(door.Tokens, 0) {
		e.TotalAvailableTokens = &door.Tokens
	}
	return e
}
