package pulsargate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// Server is the gate in front of a Pulsar broker. It is an ingress.Handler and
// safe for concurrent use. Make one with [New].
type Server struct {
	gate     *limiter.Gate
	current  atomic.Pointer[settings]
	limits   atomic.Pointer[Limits]
	applied  atomic.Uint64 // how often limits were changed
	topics   *topics.Table
	sessions *relay.Relay

	heldBytes  atomic.Int64 // of all sessions
	heldFrames atomic.Int64
	producers  atomic.Int64
	paused     atomic.Int64
}

// finishTime is how long the messages of a client that left may wait for their
// receipts. Until then the broker keeps its producers, and a client that comes
// back with a name of its own choice is told that it is taken. The clients'
// default is to wait as long for a receipt.
const finishTime = 30 * time.Second

// settings are what [Server.Prepare] replaces as a whole. A session keeps those under
// which it began for what belongs to a connection.
type settings struct {
	Options

	brokers brokers
}

// newSettings checks and completes options.
func newSettings(o Options) (*settings, error) {
	if _, _, err := net.SplitHostPort(o.Backend); err != nil {
		return nil, fmt.Errorf("pulsargate: backend %q: %w", o.Backend, err)
	}
	if err := o.Classes.CheckBy("metadata:KEY", "producer"); err != nil {
		return nil, fmt.Errorf("pulsargate: %w", err)
	}
	o = o.WithDefaults()
	return &settings{o, append(brokers{o.Backend}, o.Brokers...)}, nil
}

// relay returns what concerns the relay.
func (o *settings) relay() relay.Options {
	dialer := relay.NewDialer([]string{o.Backend}, o.DialTimeout, relay.WithTLS(o.Dial, o.BackendTLS))
	dialer.Health().Keep(o.brokers.named()...)
	dialer.Allow(o.brokers.allows)
	return relay.Options{
		Dialer: dialer, Log: o.Log, Counts: o.Counts, Patience: o.StallTimeout, Greeting: o.DialTimeout, Window: pulsarwire.HeaderSize + maxCommand,
		Finish: finishTime, Cancel: o.CancelAbandoned,
	}
}

// maxFrame bounds what a client may send, in bytes.
func (o *settings) maxFrame() int { return o.MaxMessageSize + pulsarwire.FramePadding }

// New returns a server that admits messages through gate. The error says what in
// o cannot work.
func New(gate *limiter.Gate, o Options) (*Server, error) {
	if gate == nil {
		return nil, errors.New("pulsargate: no limiter")
	}
	next, err := newSettings(o)
	if err != nil {
		return nil, err
	}
	s := &Server{gate: gate}
	s.current.Store(next)
	s.limits.Store(&next.Limits)
	s.topics = topics.New(next.Limits.rates(), gate.Now())
	s.sessions = relay.New(gate, next.relay())
	return s, nil
}

// Prepare checks options and returns what puts them in force, which cannot fail.
// Limits and MinPause hold from the next message on, By and Classes for producers that
// are opened from now on, all others for connections that come from now on. Nothing is
// interrupted, but that sessions whose broker is not allowed any more end as in a
// drain, once nothing waits for a receipt.
func (s *Server) Prepare(o Options) (apply func(), err error) {
	next, err := newSettings(o)
	return func() {
		s.current.Store(next)
		s.SetLimits(next.Limits)
		s.sessions.Apply(next.relay())
	}, err
}

// SetLimits changes the limits while the server runs. Topics and groups that go on
// existing keep the tokens that they have.
func (s *Server) SetLimits(l Limits) {
	l = l.WithDefaults()
	s.limits.Store(&l)
	s.topics.Apply(l.rates(), s.gate.Now())
	s.applied.Add(1)
}

// Status is what a [Server] does at one moment.
type Status struct {
	Connections int64 `json:"connections"`
	Producers   int64 `json:"producers"`
	Topics      int64 `json:"topics"`
	HeldFrames  int64 `json:"heldFrames"`
	HeldBytes   int64 `json:"heldBytes"`
	Paused      int64 `json:"paused"` // connections that are not read from
}

// Status returns a snapshot.
func (s *Server) Status() Status {
	return Status{
		Connections: s.sessions.Sessions(), Producers: s.producers.Load(), Topics: int64(s.topics.Size()),
		HeldFrames: s.heldFrames.Load(), HeldBytes: s.heldBytes.Load(), Paused: s.paused.Load(),
	}
}

// Backends returns how the brokers answer.
func (s *Server) Backends() []ingress.BackendStatus { return s.sessions.Backends() }

// ServeConn serves one client and closes c. When ctx ends it reads nothing more,
// waits for the receipts of what was forwarded and returns; messages that are
// held are left to the client, which sends them again where it connects next.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.Begin(ctx, c, nil)() }

// Begin implements [ingress.Sleeper].
func (s *Server) Begin(ctx context.Context, c net.Conn, wake func()) (serve func() (over bool)) {
	ses := newSession(s, c)
	return s.sessions.Begin(ctx, c, ses, wake, func(err error) {
		defer ses.settle()
		switch {
		case errors.Is(err, pulsarwire.ErrMalformed), errors.Is(err, pulsarwire.ErrTooLarge):
			ses.o.Observer.Happened(EventProtocolError)
		case errors.Is(err, relay.ErrStalled), errors.Is(err, relay.ErrGreeting):
			ses.o.Observer.Happened(EventStalled)
		}
	})
}
