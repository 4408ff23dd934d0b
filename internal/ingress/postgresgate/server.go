package postgresgate

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Server serves the client connections of one PostgreSQL gate. It is an
// ingress.Handler and is safe for concurrent use.
type Server struct {
	name     string
	current  atomic.Pointer[settings]
	learner  *limiter.Gate // that learns shapes; nil = another decides
	sessions *relay.Relay
	keys     cancelKeys
	users    users
	counters counters
	suspends suspender
	once     struct{ binding sync.Once }
}

// settings are what [Server.Prepare] replaces as a whole. A session keeps those under
// which it began for what belongs to a connection; what is decided about a unit of
// work is decided by those in force.
type settings struct {
	Options

	dialer *relay.Dialer
	parts  []part
	costs  [sqltext.OpFree + 1]float64
	direct *tls.Config // of clients that begin with TLS; nil = none
}

// newSettings checks and completes options.
func newSettings(o Options) (*settings, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	parts, err := parseParts(o.PartitionBy)
	if err != nil {
		return nil, err
	}
	if err := o.Classes.CheckBy("application", "comment:KEY"); err != nil {
		return nil, fmt.Errorf("postgresgate: %w", err)
	}
	o = o.WithDefaults()
	dial := o.Dial
	if o.BackendTLS != nil {
		dial = relay.WithTLS(relay.Then(dial, askTLS), o.BackendTLS)
	}
	s := &settings{Options: o, parts: parts, dialer: relay.NewDialer(o.Backends, o.DialTimeout, dial)}
	for op := range s.costs {
		s.costs[op] = o.Costs[sqltext.Operation(op).String()]
	}
	if o.TLS != nil {
		s.direct = o.TLS.Clone()
		s.direct.NextProtos = []string{"postgresql"}
	}
	return s, nil
}

// relay returns what concerns the relay.
func (s *Server) relay(o *settings) relay.Options {
	return relay.Options{
		Dialer: o.dialer, Patience: o.FrameTimeout, Greeting: o.HandshakeTimeout, Cancel: o.CancelAbandoned, Window: 2 * seen,
		Log: o.Log, Counts: o.Counts, Queued: s.suspends.full,
	}
}

// passesTLS reports whether TLS between client and backend is forwarded unread.
func (o *settings) passesTLS() bool { return o.PassTLS && o.TLS == nil && o.BackendTLS == nil }

// New returns a server that admits through g. It connects to no backend.
func New(g relay.Gate, o Options) (*Server, error) {
	next, err := newSettings(o)
	if err != nil {
		return nil, err
	}
	s := &Server{name: g.Name()}
	s.learner, _ = g.(*limiter.Gate)
	if next.passesTLS() {
		next.Log.Warn("passTLS: sessions that a client encrypts towards the backend are not admitted, only their connections; "+
			"tls and backendTLS end TLS in the gate", slog.String("ingress", s.name))
	}
	s.current.Store(next)
	s.suspends.srv = s
	if next.Activity != nil {
		s.keys.index()
	}
	s.sessions = relay.New(g, s.relay(next))
	return s, nil
}

// Prepare checks options and returns what puts them in force, which cannot fail.
// PartitionBy, Classes, Costs, Exempt, GateSuperusers, PerStatement, SQLStates and
// NoHints hold from the next unit of work on, all others for connections that come
// from now on. Nothing is interrupted, but that sessions whose backend is none of
// Backends any more end as in a drain, once they have no transaction open.
func (s *Server) Prepare(o Options) (apply func(), err error) {
	next, err := newSettings(o)
	return func() {
		s.current.Store(next)
		if next.Activity != nil {
			s.keys.index()
		}
		s.sessions.Apply(s.relay(next))
	}, err
}

// ServeConn serves one client until it leaves, the backend leaves, or ctx is
// cancelled and no transaction is open any more. It closes c.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.Begin(ctx, c, nil)() }

// Begin implements [ingress.Sleeper].
func (s *Server) Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool)) {
	ses := newSession(s, c)
	c, err := s.handshake(ctx, c, ses)
	if err != nil {
		ses.o.Log.DebugContext(ctx, "connection ended", slog.String("ingress", s.name), slog.Any("client", ses.login.remote), slog.Any("error", err))
		return func() bool { return true }
	}
	return s.sessions.Begin(ctx, c, ses, wake, func(error) {
		s.keys.remove(ses)
		s.counters.opens(ses.back.now().status, statusIdle)
		if ses.login.opaque {
			s.counters.opaqueOpen.Add(-1)
		}
	})
}

// Backends returns how the backends answer.
func (s *Server) Backends() []ingress.BackendStatus { return s.sessions.Backends() }

// handshake begins TLS with a client whose first byte asks for it. It closes c
// when that fails.
func (s *Server) handshake(ctx context.Context, c net.Conn, ses *session) (net.Conn, error) {
	if ses.o.direct == nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ses.o.HandshakeTimeout) // of both together
	defer cancel()
	first, c, err := ingress.Peek(ctx, c)
	if err != nil {
		_ = c.Close()
		return c, fmt.Errorf("postgresgate: no first byte: %w", err)
	}
	if first != recordHandshake {
		return c, nil
	}
	ses.login.tls = true
	return ingress.Secure(ctx, c, ses.o.direct, ses.o.HandshakeTimeout)
}

// recordHandshake is the first byte of TLS, which begins no start-up message: it
// would be one of 360 MiB.
const recordHandshake = 0x16

// askTLS asks a server for TLS, as it is asked before a start-up message.
func askTLS(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	answer := [1]byte{}
	if _, err := c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, err
	}
	if answer[0] != 'S' {
		return nil, fmt.Errorf("postgresgate: backend %s speaks no TLS (it said %q)", address, answer[0])
	}
	return c, nil
}
