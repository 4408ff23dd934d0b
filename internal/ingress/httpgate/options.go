package httpgate

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/limiter"
)

// Words for what a zero cannot say, since it stands for a default.
const (
	// Unbounded is an Options.MaxBody that bounds nothing.
	Unbounded int64 = -1
	// AnyRate is an Options.MinBodyRate that no client is too slow for.
	AnyRate = -1
)

// Defaults and bounds.
const (
	defaultConnectTimeout = 2 * time.Second
	defaultRequestTimeout = 30 * time.Second
	defaultStreamIdle     = 60 * time.Second
	defaultMinBodyRate    = 500 // bytes per second
	defaultBodyGrace      = 20 * time.Second
	defaultHeaderTimeout  = 10 * time.Second
	defaultIdleTimeout    = 90 * time.Second
	defaultMaxHeader      = 64 << 10
	defaultMaxBody        = 1 << 30
	defaultMaxIdle        = 256

	// MaxKey bounds a partition key, in bytes; a longer one is known by its hash.
	MaxKey = 256
)

// Options say what the gate does with requests. Only Backend is required.
type Options struct {
	// Backend is where admitted requests go: http://host:port or
	// https://host:port, without a path.
	Backend string
	// BackendTLS is used for an https backend; nil = the system's authorities.
	BackendTLS *tls.Config

	// By says what identifies a partition. The keys of several entries are
	// joined by "/"; when all are empty, so is the key, which is the partition
	// "default". Entries are
	//
	//	header:NAME      the value of a request header; twice is answered 400
	//	query:NAME       the first value of a query parameter
	//	path             the path
	//	path:/a/{id}/*   the parameters of a path that matches, joined by "/"
	//	client           the client's IP address
	//	constant:NAME    NAME
	//
	// The values of headers and query parameters by which clients prove who they are,
	// such as Authorization, Cookie and X-Api-Key, are secrets: in a key "sha256:" and
	// 16 digits of its hash stand for one, unless a named partition serves the key.
	By []string
	// Named are the keys that named partitions serve; one that ends in * serves all that
	// begin so.
	Named []string
	// Exempt requests are counted but never refused.
	Exempt Exempt
	// Classes says who goes first; nil = nobody. Its By are header:NAME,
	// query:NAME and priority, the urgency of RFC 9218; the operations of rules are
	// spelled as in Costs.
	Classes *ingress.Classes
	// CostHeader names a request header with the cost in tokens, a number
	// > 0. It goes before Costs; "" = none.
	CostHeader string
	// Costs are the tokens that operations spend; the most specific pattern
	// counts, and of a path that can be read in two ways the dearest reading.
	// Everything else costs 1.
	Costs []Cost
	// DefaultCost is what a request spends of which neither tells; 0 = 1
	// token.
	DefaultCost float64

	// Status is the status code of a rejection: 429, 503 or 462; 0 = by the
	// reason.
	Status int
	// NoHints leaves the computed waits out of rejections, and with them the
	// RateLimit fields.
	NoHints bool
	// Rate returns the request rate that binds a partition, for the RateLimit
	// headers of refusals by rate; nil = no such headers.
	Rate func(partition string) limiter.Rate

	// ConnectTimeout bounds connecting to the backend; 0 = 2 s.
	ConnectTimeout time.Duration
	// RequestTimeout bounds the backend's silence from the end of the request
	// to the head of its answer; 0 = 30 s. A client's deadline shortens it.
	RequestTimeout time.Duration
	// StreamIdle bounds the silence inside a body, in either direction; 0 =
	// 60 s. Event streams and tunnels may be silent.
	StreamIdle time.Duration
	// MinBodyRate is the average rate in bytes per second at which a client has
	// to send a body, after BodyGrace and until its answer begins, and to take
	// the answer while the backend still sends, so that a few slow clients cannot
	// hold every permit. Time in which the backend is the slow one does not
	// count. 0 = 500, [AnyRate] = any will do.
	MinBodyRate int
	// BodyGrace is the time that a client has before its rate counts; 0 = 20 s.
	BodyGrace time.Duration
	// HeaderTimeout bounds the reading of a request's head; 0 = 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout closes connections that are not used, on both sides; 0 =
	// 90 s.
	IdleTimeout time.Duration
	// MaxHeader bounds the head of a request and of an answer, in bytes; 0 =
	// 64 KiB.
	MaxHeader int
	// MaxBody bounds the body of a request, in bytes; 0 = 1 GiB, [Unbounded] =
	// it may be of any length.
	MaxBody int64
	// MaxIdle bounds the idle connections kept to the backend; 0 = 256.
	MaxIdle int

	// Via adds a Via header to requests.
	Via bool
	// TrustForwarded keeps the client's X-Forwarded-Proto, X-Forwarded-Host,
	// X-Real-IP and Forwarded. Set it only behind a proxy that overwrites them.
	TrustForwarded bool
	// HoldStreams holds the permit of a WebSocket or an event stream for as
	// long as it lives, and then leaves its latency out. Otherwise the permit
	// ends once the stream is established.
	HoldStreams bool

	// OverloadStatus are the statuses by which the backend says that it is
	// overloaded, 400 to 599: such an answer counts as dropped. nil = 503 and
	// 504. A 429 is most often about one client, and says nothing otherwise.
	OverloadStatus []int
	// CancelAbandoned hangs up on the backend when the client has gone, and
	// ends the permit then. It is for backends that stop working when their
	// client hangs up; in front of any other it lets clients without patience
	// pile up work behind the limit. Otherwise the answer is read to nobody.
	CancelAbandoned bool

	// Hello answers GET /v1/hello, before admission and while draining too;
	// nil = the path is the backend's. See labels.ServeHello.
	Hello http.Handler
	// Own is told, of a sample of requests, how long the gate itself took, without
	// the backend and without waiting; nil = nobody.
	Own func(d time.Duration)
	// Timing tells in each answer's X-Admitd-Timing how long the gate itself took, as
	// Own is told.
	Timing bool
	// Askers counts who makes the load; nil = nobody does.
	TopKeys *topkeys.Board
	// Observer is told of every request; nil = nobody.
	Observer Observer
	// Ingress is about connections. [Server.Apply] takes its Connections, TLS,
	// ProxyProtocol and ProxyFrom.
	Ingress ingress.Options
}

// Exempt says which requests are never refused.
type Exempt struct {
	// CIDRs of clients.
	CIDRs []netip.Prefix
	// Applications are prefixes of the X-Application header or, without one,
	// of User-Agent.
	Applications []string
	// Operations are patterns: "GET /health", "/internal/*", "POST
	// /orders/{id}". A path that can be read in two ways (escapes, ";", "..",
	// "//") matches none.
	Operations []string
}

// Cost is what an operation spends.
type Cost struct {
	Operation string  // a pattern, as in [Exempt]
	Tokens    float64 // > 0
}

// Observer is told of every request that is gated. Its methods are called on
// the request path and must not block.
type Observer interface {
	// Begin is called before the request is identified. It may set headers
	// of r, which then travel to the backend. The context it returns, which
	// must descend from r.Context(), is the request's from then on. A nil
	// Span is not told of the end.
	Begin(r *http.Request) (context.Context, Span)
}

// Span follows one request.
type Span interface {
	// End is called once, when the request is over.
	End(res Result)
}

// Result is how a request ended.
type Result struct {
	// Status is the code that was answered; 0 when the client went away.
	Status int
	// Partition that granted the permit or refused it.
	Partition string
	// Label is how metrics name the partition; "" for a refused request.
	Label string
	// Wait is how long the decision took, queues included.
	Wait time.Duration
	// Outcome of the permit. It means nothing for a refused request.
	Outcome limiter.Outcome
	// Err is the *limiter.Rejection of a refused request, what went wrong with
	// an admitted one, or nil.
	Err error
}

// Status is a snapshot of the gate's counts.
type Status struct {
	Connections ingress.Status
	// Tunnels are upgraded connections that are open.
	Tunnels int
	// BackendIdle are connections to the backend that wait for a request.
	BackendIdle int
	// BackendDials counts connections opened to the backend.
	BackendDials uint64
	// Retries counts requests that were sent again because the backend had
	// closed the idle connection that they were sent on.
	Retries uint64
	// Backends says how the backend answers.
	Backends []ingress.BackendStatus
}

// WithDefaults returns o with what stands for its zeros.
func (o Options) WithDefaults() Options {
	o.ConnectTimeout = ingress.Or(o.ConnectTimeout, defaultConnectTimeout)
	o.RequestTimeout = ingress.Or(o.RequestTimeout, defaultRequestTimeout)
	o.StreamIdle = ingress.Or(o.StreamIdle, defaultStreamIdle)
	o.BodyGrace = ingress.Or(o.BodyGrace, defaultBodyGrace)
	if o.MinBodyRate == 0 {
		o.MinBodyRate = defaultMinBodyRate
	}
	o.HeaderTimeout = ingress.Or(o.HeaderTimeout, defaultHeaderTimeout)
	o.IdleTimeout = ingress.Or(o.IdleTimeout, defaultIdleTimeout)
	o.MaxHeader = ingress.Or(o.MaxHeader, defaultMaxHeader)
	o.MaxIdle = ingress.Or(o.MaxIdle, defaultMaxIdle)
	if o.OverloadStatus == nil {
		o.OverloadStatus = []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	}
	if o.DefaultCost == 0 {
		o.DefaultCost = 1
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	o.Ingress = o.Ingress.WithDefaults()
	return o
}

// upstream returns what concerns the connections to the backend.
func (o *Options) upstream() upstream.Options {
	return upstream.Options{
		Backend: o.Backend, TLS: o.BackendTLS, ConnectTimeout: o.ConnectTimeout, MaxIdle: o.MaxIdle, IdleTimeout: o.IdleTimeout,
	}
}

// exchange returns what concerns the way to the backend and back.
func (o *Options) exchange() roundtrip.Options {
	return roundtrip.Options{
		RequestTimeout: o.RequestTimeout, StreamIdle: o.StreamIdle, BodyGrace: o.BodyGrace, MinBodyRate: o.MinBodyRate,
		MaxBody: o.MaxBody, MaxHeader: o.MaxHeader, HoldStreams: o.HoldStreams, CancelAbandoned: o.CancelAbandoned,
		Timing: o.Timing, Own: o.Own,
	}
}

// bounds returns what concerns the connections of clients.
func (o *Options) bounds() fastpath.Bounds {
	x := o.exchange()
	return fastpath.Bounds{
		MaxHeader: o.MaxHeader, HeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout, WriteTimeout: x.WriteTimeout(), TLS: o.Ingress.TLS,
	}
}

// streams returns what concerns sessions of HTTP/2.
func (o *Options) streams() h2.Bounds {
	b := o.bounds()
	return h2.Bounds{
		MaxHeader: b.MaxHeader, HeaderTimeout: b.HeaderTimeout, IdleTimeout: b.IdleTimeout, WriteTimeout: b.WriteTimeout, StreamIdle: o.StreamIdle,
	}
}
