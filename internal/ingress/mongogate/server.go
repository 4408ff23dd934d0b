package mongogate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Server serves the client connections of one MongoDB gate. It is an
// ingress.Handler and is safe for concurrent use.
type Server struct {
	gate     relay.Gate
	learner  *limiter.Gate // that learns shapes; nil = another decides
	current  atomic.Pointer[settings]
	keys     interner
	ledger   openWork
	points   failPoints
	latency  atomic.Int64 // ns, moving average of commands; 0 = unknown
	bypassed ingress.LogLimiter
	counters counters
	login    credentials
	outage   outage
	sessions *relay.Relay
}

// settings are what [Server.Prepare] replaces as a whole. A session keeps those under
// which it began for what belongs to a connection; what is decided about a command
// is decided by those in force.
type settings struct {
	Options

	commands commandTable
	parts    []part
	hellos   helloRewriter
	dialer   *relay.Dialer
}

// newSettings checks and completes options.
func newSettings(o Options) (*settings, error) {
	o = o.WithDefaults()
	if err := validate(&o); err != nil {
		return nil, err
	}
	parts, err := parseParts(o.PartitionBy)
	if err != nil {
		return nil, err
	}
	if err := o.Classes.CheckBy("comment", "application", "readPreference"); err != nil {
		return nil, fmt.Errorf("mongogate: %w", err)
	}
	return &settings{
		Options: o, parts: parts, commands: newCommandTable(&o),
		hellos: helloRewriter{mode: o.Topology.Mode, members: o.Topology.Members},
		dialer: relay.NewDialer(o.Backends, o.DialTimeout, relay.WithTLS(o.Dial, o.BackendTLS)),
	}, nil
}

// relay returns what concerns the relay.
func (o *settings) relay() relay.Options {
	return relay.Options{
		Dialer: o.dialer, Patience: o.FrameTimeout, Greeting: o.HandshakeTimeout, Window: o.IdentifyWindow,
		Cancel: o.CancelAbandoned, Log: o.Log, Counts: o.Counts,
	}
}

// New returns a server that admits through g. It does not connect to a
// backend; see [Server.Probe].
func New(g relay.Gate, o Options) (*Server, error) {
	next, err := newSettings(o)
	if err != nil {
		return nil, err
	}
	s := &Server{gate: g, keys: newInterner()}
	s.learner, _ = g.(*limiter.Gate)
	s.current.Store(next)
	s.sessions = relay.New(g, next.relay())
	return s, nil
}

// Prepare checks options and returns what puts them in force, which cannot fail.
// PartitionBy, Classes, Costs, Exempt.Commands, Refusal, Unauthenticated,
// ReplyBytesPerToken, HoldStreams and TestCommands hold from the next command on, as
// do the other exemptions; all others for connections that come from now on. Nothing
// is interrupted, but that sessions whose backend is none of Backends any more end as
// in a drain, once nothing is in progress.
func (s *Server) Prepare(o Options) (apply func(), err error) {
	next, err := newSettings(o)
	return func() {
		s.current.Store(next)
		s.sessions.Apply(next.relay())
	}, err
}

// validate checks options that have their defaults.
func validate(o *Options) error {
	var errs []error
	if len(o.Backends) == 0 {
		errs = append(errs, errors.New("mongogate: no backend"))
	}
	if len(o.Backends) > 1 && o.Topology.Mode != TopologyLoadBalanced {
		errs = append(errs, fmt.Errorf("mongogate: %d backends need the topology loadBalanced: cursors and transactions "+
			"live in one of them", len(o.Backends)))
	}
	if o.Topology.Mode == TopologyMembers && len(o.Topology.Members) == 0 {
		errs = append(errs, errors.New("mongogate: the topology members needs a map of members"))
	}
	if o.MaxMessageBytes < 64<<10 || o.MaxMessageBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("mongogate: largest message %d bytes, want %d to %d", o.MaxMessageBytes, 64<<10, 1<<30))
	}
	if o.IdentifyWindow < 64<<10 || o.IdentifyWindow > 64<<20 {
		errs = append(errs, fmt.Errorf("mongogate: identify window %d bytes, want %d to %d", o.IdentifyWindow, 64<<10, 64<<20))
	}
	for name, cost := range o.Costs {
		if !(cost >= 0 && cost <= limiter.MaxCost) { // nor is it NaN
			errs = append(errs, fmt.Errorf("mongogate: cost of %s is %v, want 0 to %g", name, cost, limiter.MaxCost))
		}
	}
	return errors.Join(errs...)
}

// blind observes nothing.
type noObserver struct{}

// Handshake implements [Observer].
func (noObserver) Handshake(Generation) {}

// FireAndForgetDropped implements [Observer].
func (noObserver) FireAndForgetDropped() {}

// ServeConn serves one client until it leaves, the backend leaves, or ctx is
// cancelled and nothing is in progress any more: no unanswered command, no
// open cursor, no open transaction. It closes c.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.Begin(ctx, c, nil)() }

// Begin implements [ingress.Sleeper].
func (s *Server) Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool)) {
	return s.sessions.Begin(ctx, c, newSession(s, c), wake, func(error) {})
}

// Backends returns how the backends answer.
func (s *Server) Backends() []ingress.BackendStatus { return s.sessions.Backends() }

// maxWait returns how long the command may wait for admission: as long as the
// policy lets clients of its generation, and not so long that the client would
// have given up before the reply.
func (s *Server) maxWait(f *facts, g Generation, by *Refusal) time.Duration {
	wait := by.WaitAnnounced
	if g == Silent {
		wait = by.WaitSilent
	}
	if wait < 0 || f.maxTime == 0 {
		return wait
	}
	left := f.maxTime - s.usual()
	if left <= 0 {
		return limiter.NoWait
	}
	if wait == 0 {
		return left
	}
	return min(wait, left)
}

// usual returns how long commands usually take at the backend; 0 = unknown.
func (s *Server) usual() time.Duration { return time.Duration(s.latency.Load()) }

// observe adds one latency to the moving average. Concurrent calls may lose
// one of two samples, which an average survives.
func (s *Server) observe(d time.Duration) {
	old := s.latency.Load()
	if old == 0 {
		old = int64(d)
	}
	s.latency.Store(old + (int64(d)-old)/8)
}
