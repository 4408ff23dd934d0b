package postgresgate

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Server serves the client connections of one PostgreSQL gate. It is an
// ingress.Handler and is safe for concurrent use.
type Server struct {
	name     string
	o        Options
	learner  *limiter.Gate // that learns shapes; nil = another decides
	corridor *relay.Corridor
	dialer   *relay.Dialer
	parts    []part
	costs    [sqltext.OpFree + 1]float64
	direct   *tls.Config // of clients that begin with TLS; nil = none
	keys     cancelKeys
	users    users
	counters counters
	suspends suspender
	// passesTLS: TLS between client and backend is forwarded unread.
	passesTLS bool
	once      struct{ binding sync.Once }
}

// New returns a server that admits through g. It connects to no backend.
func New(g relay.Gate, o Options) (*Server, error) {
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
	s := &Server{name: g.Name(), o: o, parts: parts, dialer: relay.NewDialer(o.Backends, o.DialTimeout, dial)}
	s.learner, _ = g.(*limiter.Gate)
	for op := range s.costs {
		s.costs[op] = o.Costs[sqltext.Operation(op).String()]
	}
	if s.passesTLS = o.PassTLS && o.TLS == nil && o.BackendTLS == nil; s.passesTLS {
		o.Log.Warn("passTLS: sessions that a client encrypts towards the backend are not admitted, only their connections; "+
			"tls and backendTLS end TLS in the gate", slog.String("ingress", s.name))
	}
	if o.TLS != nil {
		s.direct = o.TLS.Clone()
		s.direct.NextProtos = []string{"postgresql"}
	}
	s.suspends.begin(s)
	s.corridor = relay.New(g, relay.Options{
		Dialer: s.dialer, Patience: o.FrameTimeout, Greeting: o.HandshakeTimeout, Cancel: o.CancelAbandoned, Window: 2 * seen,
		Log: o.Log, Counts: o.Counts, Queued: s.suspends.full,
	})
	return s, nil
}

// ServeConn serves one client until it leaves, the backend leaves, or ctx is
// cancelled and no transaction is open any more. It closes c.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.Begin(ctx, c, nil)() }

// Begin implements [ingress.Sleeper].
func (s *Server) Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool)) {
	ses := newSession(s, c)
	c, err := s.handshake(ctx, c, ses)
	if err != nil {
		s.o.Log.DebugContext(ctx, "connection ended", slog.String("ingress", s.name), slog.Any("client", ses.login.remote), slog.Any("error", err))
		return func() bool { return true }
	}
	return s.corridor.Begin(ctx, c, ses, wake, func(error) {
		s.keys.remove(ses)
		s.counters.opens(ses.back.now().status, statusIdle)
		if ses.login.opaque {
			s.counters.opaqueOpen.Add(-1)
		}
	})
}

// Backends returns how the backends answer.
func (s *Server) Backends() []ingress.BackendStatus { return s.corridor.Backends() }

// handshake begins TLS with a client whose first byte asks for it. It closes c
// when that fails.
func (s *Server) handshake(ctx context.Context, c net.Conn, ses *session) (net.Conn, error) {
	if s.direct == nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.HandshakeTimeout) // of both together
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
	return ingress.Secure(ctx, c, s.direct, s.o.HandshakeTimeout)
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
