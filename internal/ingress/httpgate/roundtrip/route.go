package roundtrip

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// A Gate says what is its own to say about requests and answers. It is called
// from many goroutines.
type Gate interface {
	// AppendHead appends the head of r as the backend gets it; upgrade is the
	// protocol that r switches to, "" = none.
	AppendHead(b []byte, r *http.Request, upgrade string) []byte
	// WithholdsTrailer reports whether a trailer of requests, by its canonical
	// name, is not passed on.
	WithholdsTrailer(name string) bool
	// Judge returns what a complete answer says about the backend's load.
	Judge(status int) limiter.Outcome
	// Problem answers a request that the backend does not, and reports whether the
	// connection must be cut.
	Problem(w http.ResponseWriter, r *http.Request, status int, detail string) (cut bool)
}

// Options are bounds and choices, none of them with a default. The gate's options
// of the same names tell what they are for.
type Options struct {
	RequestTimeout time.Duration // from the request to the head of the answer, > 0
	StreamIdle     time.Duration // of silence inside a body, > 0
	BodyGrace      time.Duration // before MinBodyRate counts
	MinBodyRate    int           // bytes per second; < 0 = any
	MaxBody        int64         // bytes of a request; <= 0 = any
	MaxHeader      int           // bytes of an answer's head

	HoldStreams     bool                  // a stream holds its permit until it ends
	CancelAbandoned bool                  // the backend is hung up on when the caller leaves
	Timing          bool                  // answers say how long the gate took
	Own             func(d time.Duration) // is told of one request in 16; nil = nobody
}

// WriteTimeout bounds the time from the last byte of a request to the end of its
// answer. An answer that takes longer moves this bound along as it flows.
func (o *Options) WriteTimeout() time.Duration { return o.RequestTimeout + 2*o.StreamIdle }

// bodyTime is how long a client may take for n bytes of a body.
func (o *Options) bodyTime(n int64) time.Duration {
	if o.MinBodyRate < 0 {
		return math.MaxInt64
	}
	return o.BodyGrace + time.Duration(float64(n)/float64(o.MinBodyRate)*float64(time.Second))
}

// Route is where admitted requests go. It is immutable, all of it is required,
// and it is safe for concurrent use.
type Route struct {
	Options
	Gate      Gate
	Clock     *limiter.Gate // of which only the clock is read
	Pool      *upstream.Pool
	Backend   *ingress.Backend
	Counts    *ingress.Counts          // of the answers
	Retries   *atomic.Uint64           // counts requests that were sent again
	Tunnels   *ingress.UnansweredConns // connections of clients that switched protocols
	Abandoned *ingress.UnansweredConns // connections to the backend whose callers have left
}

// Admitted is a request that may go on. All but Deadline and Own is required; Serve
// owns the permit from then on, and ends it.
type Admitted struct {
	W        http.ResponseWriter
	R        *http.Request
	Ctx      context.Context //nolint:containedctx // it lives exactly as long as the request
	Permit   limiter.Permit
	Deadline time.Time // the caller's; zero = none
	Own      OwnTime
}

// Result is how an exchange ended.
type Result struct {
	Status  int // 0 = nothing was answered
	Outcome limiter.Outcome
	Err     error
	Cut     bool // the answer was begun and cannot be finished

	detached bool // the exchange goes on without its caller, and is not the handler's any more
}
