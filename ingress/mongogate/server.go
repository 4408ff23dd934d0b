package mongogate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Server serves the client connections of one MongoDB gate. It is an
// ingress.Handler and is safe for concurrent use.
type Server struct {
	gate     relay.Gate
	learner  *limiter.Gate // that learns shapes; nil = another decides
	o        Options
	commands commandTable
	parts    []part
	hellos   hellos
	keys     interner
	ledger   ledger
	points   *failPoints  // nil = [Options.TestCommands] is off
	latency  atomic.Int64 // ns, moving average of commands; 0 = unknown
	bypassed ingress.Seldom
	counters counters
	login    credentials
	dialer   *relay.Dialer
	outage   outage
	corridor *relay.Corridor
}

// New returns a server that admits through g. It does not connect to a
// backend; see [Server.Probe].
func New(g relay.Gate, o Options) (*Server, error) {
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
	s := &Server{
		gate: g, o: o, parts: parts, keys: newInterner(), commands: newCommandTable(&o),
		hellos: hellos{mode: o.Topology.Mode, members: o.Topology.Members},
		login:  credentials{policy: o.Unauthenticated, log: o.Log},
	}
	s.learner, _ = g.(*limiter.Gate)
	if o.TestCommands {
		s.points = &failPoints{}
	}
	s.dialer = relay.NewDialer(o.Backends, o.DialTimeout, relay.WithTLS(o.Dial, o.BackendTLS))
	s.corridor = relay.New(g, relay.Options{
		Dialer: s.dialer, Patience: o.FrameTimeout, Greeting: o.HandshakeTimeout, Window: o.IdentifyWindow,
		Cancel: o.CancelAbandoned, Log: o.Log, Counts: o.Counts,
	})
	return s, nil
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
type blind struct{}

// Handshake implements [Observer].
func (blind) Handshake(Generation) {}

// FireAndForgetDropped implements [Observer].
func (blind) FireAndForgetDropped() {}

// ServeConn serves one client until it leaves, the backend leaves, or ctx is
// cancelled and nothing is in progress any more: no unanswered command, no
// open cursor, no open transaction. It closes c.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.Begin(ctx, c, nil)() }

// Begin implements [ingress.Sleeper].
func (s *Server) Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool)) {
	return s.corridor.Begin(ctx, c, newSession(s, c), wake, func(error) {})
}

// Backends returns how the backends answer.
func (s *Server) Backends() []ingress.BackendStatus { return s.corridor.Backends() }

// exemptName reports whether the application or driver is exempt.
func (s *Server) exemptName(c *client) bool {
	return slices.ContainsFunc(s.o.Exempt.Applications, func(p string) bool {
		return strings.HasPrefix(c.application, p) || strings.HasPrefix(c.driver, p)
	})
}

// maxWait returns how long the command may wait for admission: as long as the
// policy lets clients of its generation, and not so long that the client would
// have given up before the reply.
func (s *Server) maxWait(f *facts, g Generation) time.Duration {
	wait := s.o.Refusal.WaitAnnounced
	if g == Silent {
		wait = s.o.Refusal.WaitSilent
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
