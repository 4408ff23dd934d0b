package mongogate

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/topkeys"
)

// Bounds and defaults.
const (
	// DefaultMaxMessageBytes is the largest frame that servers accept, 48 MB,
	// with slack for the headers around a largest batch.
	DefaultMaxMessageBytes = 48_000_000 + 16<<10
	// DefaultIdentifyWindow is how much of a large frame is read before it is
	// decided about, in bytes.
	DefaultIdentifyWindow = relay.DefaultWindow
)

// Options configure a [Server]. They are plain data; only Backends is required.
type Options struct {
	// Backends are host:port addresses. More than one needs
	// [TopologyLoadBalanced]; connections are then spread in turn, and one that
	// cannot be dialled is left out for a while.
	Backends []string
	// Dial connects to a backend, before TLS; nil = TCP.
	Dial relay.DialFunc
	// BackendTLS dials backends with TLS; nil = plain TCP. An empty
	// ServerName is filled in from the address.
	BackendTLS *tls.Config
	// DialTimeout bounds connecting to a backend, TLS included; 0 = 5 s.
	DialTimeout time.Duration
	// HandshakeTimeout is how long a client may take to send its first whole
	// frame; 0 = 10 s.
	HandshakeTimeout time.Duration
	// FrameTimeout is how long a frame may stand still, on its way in or out; a
	// MiB may take 16 s longer. 0 = 30 s.
	FrameTimeout time.Duration
	// MaxMessageBytes bounds every frame, checked before anything is
	// allocated for it; 0 = [DefaultMaxMessageBytes]. In [64 KiB, 1 GiB].
	MaxMessageBytes int
	// IdentifyWindow bounds how much of a frame is held while its facts are
	// looked for, in bytes; 0 = [DefaultIdentifyWindow]. At least 64 KiB.
	// What stands behind it in a larger frame is not seen.
	IdentifyWindow int

	Topology Topology
	// PartitionBy names what makes a partition key, in this order, joined by
	// "/". Each is one of database, collection (database.collection), command,
	// application, driver, user (user@database), client (address),
	// client:BITS (as [ingress.AppendNetwork] reads it), readPreference,
	// comment; each part is cut at 255 bytes. None = every request in the
	// partition "default".
	PartitionBy []string
	// Classes says who goes first; nil = nobody. Its By are comment, application
	// and readPreference, by which a read that may go to a secondary is
	// sheddable-plus; the operations of rules are command names.
	Classes *ingress.Classes
	// Costs in tokens by command name ("aggregate") or by class: read, write,
	// admin, release, other. A command's own cost wins. 0 or missing = 1.
	Costs map[string]float64
	// ReplyBytesPerToken reconciles the cost after the fact: a command whose
	// request and reply together are worth more tokens than it paid is charged
	// the difference. In bytes; 0 = off.
	ReplyBytesPerToken int
	Exempt             Exemptions
	Unauthenticated    Unauthenticated
	Refusal            Refusal
	// HoldStreams lets a getMore hold its permit while it waits for what is to
	// come, in a change stream or a tailable cursor.
	HoldStreams bool
	// CancelAbandoned closes the backend's connection as soon as a client has
	// left, so that the server kills the command. Otherwise it is finished, and
	// holds its permit until it is.
	CancelAbandoned bool
	// TestCommands answers configureFailPoint (failCommand) and
	// killAllSessions in the gate. For tests only: any client may then make
	// the gate fail commands.
	TestCommands bool

	// Counts counts what the backend answers; nil = nobody does.
	Counts *ingress.Counts
	// Askers counts who makes the load; nil = nobody does.
	TopKeys *topkeys.Board
	// Observer is told what the limiter does not count; nil = nobody.
	Observer Observer
	// Log is told how connections end and backends answer, as by [relay.Options],
	// and of replies to hello that would lead around the gate; nil = nobody is.
	Log *slog.Logger
}

// Exemptions name clients and commands that are counted but never refused.
type Exemptions struct {
	// Clients by network.
	Clients []netip.Prefix
	// Applications are prefixes of the application name or of the driver name
	// that clients announce. Clients choose these names: they are a
	// convenience, no protection.
	Applications []string
	// Commands by name, in addition to handshakes, which are never gated.
	Commands []string
}

// Refusal says how excess commands are answered.
type Refusal struct {
	// NoHints leaves out baseBackoffMS and retryAfterMS.
	NoHints bool
	// DenyRetries leaves out the label RetryableError, as a server with
	// ingressRequestRateLimiterAllowRetries=false does.
	DenyRetries bool
	// WaitAnnounced bounds how long commands wait in the limiter's queues when
	// their client announced that it retries. 0 = as long as the policy says,
	// [limiter.NoWait] = not at all.
	WaitAnnounced time.Duration
	// WaitSilent is the same for clients that announced nothing and will not
	// retry. Every wait is also bounded by the command's own maxTimeMS less
	// the time commands usually take.
	WaitSilent time.Duration
}

// TopologyMode says how replies to hello are treated.
type TopologyMode uint8

// The modes.
const (
	// TopologyAuto passes standalone servers and mongos through. A replica-set
	// member is refused: its hello would send drivers around the gate.
	TopologyAuto TopologyMode = iota
	// TopologyDirect passes every hello unchanged. Only for clients that all
	// connect with directConnection=true.
	TopologyDirect
	// TopologyMembers rewrites the addresses in hello by [Topology.Members].
	TopologyMembers
	// TopologyLoadBalanced adds a serviceId to hello and serves only clients
	// that connect with loadBalanced=true.
	TopologyLoadBalanced
)

// String returns the mode as the configuration spells it.
func (m TopologyMode) String() string {
	switch m {
	case TopologyDirect:
		return "direct"
	case TopologyMembers:
		return "members"
	case TopologyLoadBalanced:
		return "loadBalanced"
	default:
		return "auto"
	}
}

// ParseTopologyMode reads a mode as the configuration spells it; "" is auto.
func ParseTopologyMode(s string) (TopologyMode, bool) {
	for m := TopologyAuto; m <= TopologyLoadBalanced; m++ {
		if s == m.String() {
			return m, true
		}
	}
	return TopologyAuto, s == ""
}

// Topology keeps drivers from walking around the gate.
type Topology struct {
	Mode TopologyMode
	// Members maps each member's address, as the replica set's configuration
	// spells it, to the address that clients reach its gate by. Members that
	// are missing are left out of hello. For [TopologyMembers].
	Members map[string]string
}

// Observer is told what the limiter cannot count. Its methods are called on
// the request path and must not block.
type Observer interface {
	// Handshake is called for every first hello of a connection.
	Handshake(g Generation)
	// FireAndForgetDropped is called for every refused command whose client
	// wants no reply, and gets none.
	FireAndForgetDropped()
}

// Generation says what a client announced about backpressure in its hello.
type Generation uint8

// The generations.
const (
	// Silent clients announce nothing and never retry a refusal.
	Silent Generation = iota
	// Retrying clients announce true: two retries with a fixed base.
	Retrying
	// Hinted clients announce "2": two retries that obey baseBackoffMS.
	Hinted
)

// String returns the generation as metrics carry it: none, true or 2.
func (g Generation) String() string {
	switch g {
	case Retrying:
		return "true"
	case Hinted:
		return "2"
	default:
		return "none"
	}
}

// WithDefaults returns o with what stands for its zeros.
func (o Options) WithDefaults() Options {
	o.DialTimeout = ingress.Or(o.DialTimeout, relay.DefaultDialTimeout)
	o.HandshakeTimeout = ingress.Or(o.HandshakeTimeout, relay.DefaultGreeting)
	o.FrameTimeout = ingress.Or(o.FrameTimeout, relay.DefaultPatience)
	o.MaxMessageBytes = ingress.Or(o.MaxMessageBytes, DefaultMaxMessageBytes)
	o.IdentifyWindow = ingress.Or(o.IdentifyWindow, DefaultIdentifyWindow)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	return o
}
