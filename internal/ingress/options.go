package ingress

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/admitd/admitd/internal/ingress/descriptors"
	"github.com/admitd/admitd/limiter"
)

// Bounds and defaults.
const (
	// DefaultMaxOpen is the bound on open connections when none is set.
	DefaultMaxOpen = 10_000
	// DefaultDrainTimeout is how long a drain waits when nothing else is set.
	DefaultDrainTimeout = 10 * time.Second

	maxOpenBound = 10_000_000
	// preludeTimeout bounds what comes before the first byte of the protocol:
	// a PROXY header, a TLS handshake.
	preludeTimeout = 10 * time.Second
)

// Options configure a [Door], a [Listener] or a [Server]. The zero value is
// plain TCP with at most [DefaultMaxOpen] connections.
type Options struct {
	// TLS, when not nil, is spoken on every connection. Only [Server] reads
	// it; under net/http the HTTP server does the handshake. See [LoadTLS].
	TLS *tls.Config
	// Expires tells when the certificate of TLS ceases to be valid, for [Status]; zero =
	// there is none. nil = it cannot be told.
	Expires func() time.Time
	// Connections limits connections as they arrive.
	Connections Connections
	// ProxyProtocol demands a PROXY header, version 1 or 2, on every
	// connection and takes the client's address from it. A connection without
	// one is refused, and one whose header names another kind of address than
	// IP over TCP. Whoever can connect can claim any address; see ProxyFrom.
	ProxyProtocol bool
	// ProxyFrom are the proxies whose headers are believed; others are refused.
	// Empty = whoever can connect, so leave it empty only when nothing but
	// proxies can reach the listener.
	ProxyFrom []netip.Prefix
	// Descriptors is the account of the process's descriptors, which all doors
	// share; nil = one of its own.
	Descriptors *descriptors.Account
	// PerClient is how many descriptors a client takes, its own included: a wire
	// gate connects to the backend for each. 0 = 1.
	PerClient int
	// Counts are those of the ingress, which servers that follow each other share; nil =
	// of this one alone.
	Counts *Counts
	// Clock is read once per connection; nil = the process's monotonic clock.
	Clock limiter.Clock
	// Observer is told of connections; nil = nobody.
	Observer Observer
	// Log takes what an operator must know; nil = discarded.
	Log *slog.Logger
	// DrainTimeout is how long [Server.Drain] lets connections finish before
	// it closes them; 0 = [DefaultDrainTimeout].
	DrainTimeout time.Duration
}

// Connections limits connections as they arrive. The zero value admits up to
// [DefaultMaxOpen] at any rate.
type Connections struct {
	// Rate limits new connections per second. Its QueueDepth is how many may
	// wait for a token before connections are refused.
	Rate limiter.Rate
	// MaxOpen bounds the connections that are open or waiting, exempt ones
	// included; 0 = [DefaultMaxOpen].
	MaxOpen int
	// Reserved is how many of these places are kept for those who must get in;
	// the handler knows who that is, and asks [Reserved]. At least one place is
	// for everybody.
	Reserved int
	// Exempt clients do not need a token. They count towards MaxOpen.
	Exempt []netip.Prefix
}

// maxOpen returns the bound with its default.
func (c *Connections) maxOpen() int64 {
	if c.MaxOpen <= 0 {
		return DefaultMaxOpen
	}
	return int64(min(c.MaxOpen, maxOpenBound))
}

// ordinary returns how many places are for everybody.
func (c *Connections) ordinary() int64 {
	return max(c.maxOpen()-int64(max(c.Reserved, 0)), 1)
}

// Observer is told what happens to connections. Its methods are called from
// many goroutines and must not block.
type Observer interface {
	// Opened: a connection came in.
	Opened()
	// Closed: a connection that came in is closed.
	Closed()
	// Refused: a connection was closed before it came in.
	Refused(why Refusal)
}

// Refusal says why a connection was closed before it came in. The set is
// closed.
type Refusal uint8

// The refusals.
const (
	// OverRate: no token was left and the queue was full.
	OverRate Refusal = iota
	// OverOpen: as many connections as may be open were open.
	OverOpen
	// Abandoned: the client went away while it waited for a token. Its token
	// was given back.
	Abandoned
	// BadProxyHeader: the PROXY header was missing, wrong or late, or came from
	// somebody whose headers are not believed.
	BadProxyHeader
	// BadHandshake: the TLS handshake failed or took too long.
	BadHandshake
	// Draining: the door was closed while the client waited.
	Draining
	// NoDescriptors: the process had no file descriptors left for the client.
	NoDescriptors

	refusals int = iota
)

// Refusals returns every refusal in a fixed order.
func Refusals() []Refusal {
	return []Refusal{OverRate, OverOpen, Abandoned, BadProxyHeader, BadHandshake, Draining, NoDescriptors}
}

// String returns the refusal as it appears in metrics and logs.
func (r Refusal) String() string {
	switch r {
	case OverRate:
		return "rate"
	case OverOpen:
		return "max_open"
	case Abandoned:
		return "abandoned"
	case BadProxyHeader:
		return "proxy_header"
	case BadHandshake:
		return "tls_handshake"
	case NoDescriptors:
		return "descriptors"
	default:
		return "draining"
	}
}

// noObserver is the default observer.
type noObserver struct{}

// Opened implements [Observer].
func (noObserver) Opened() {}

// Closed implements [Observer].
func (noObserver) Closed() {}

// Refused implements [Observer].
func (noObserver) Refused(Refusal) {}

// monotonic is the default clock.
type monotonic struct{ base time.Time }

// Now implements [limiter.Clock].
func (m monotonic) Now() int64 { return int64(time.Since(m.base)) }

// Trusted implements [limiter.Clock].
func (monotonic) Trusted() bool { return true }

// Epoch implements [limiter.Clock].
func (monotonic) Epoch() uint32 { return 0 }

// WithDefaults returns o with what stands for its zeros.
func (o Options) WithDefaults() Options {
	if o.Clock == nil {
		o.Clock = monotonic{base: time.Now()}
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Descriptors == nil {
		o.Descriptors = descriptors.New(nil)
	}
	if o.Counts == nil {
		o.Counts = &Counts{}
	}
	o.PerClient = Or(o.PerClient, 1)
	o.DrainTimeout = Or(o.DrainTimeout, DefaultDrainTimeout)
	return o
}

// Or returns v, or d when v is not positive: what zero stands for in options.
func Or[T ~int | ~int64](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}
