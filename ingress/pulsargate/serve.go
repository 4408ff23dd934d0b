package pulsargate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// Server is the gate in front of a Pulsar broker. It is an ingress.Handler and
// safe for concurrent use. Make one with [New].
type Server struct {
	gate    *limiter.Gate
	o       Options
	brokers brokers
	limits  atomic.Pointer[Limits]
	applied atomic.Uint64 // how often limits were changed
	topics  *topics
	health  *ingress.Health

	heldBytes  atomic.Int64 // of all sessions
	heldFrames atomic.Int64
	sessions   atomic.Int64
	producers  atomic.Int64
	paused     atomic.Int64
}

// New returns a server that admits messages through gate. The error says what in
// o cannot work.
func New(gate *limiter.Gate, o Options) (*Server, error) {
	if gate == nil {
		return nil, errors.New("pulsargate: no limiter")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{gate: gate, o: o, brokers: append(brokers{o.Backend}, o.Brokers...)}
	s.health = ingress.NewHealth(s.brokers.named()...).Log(gate.Name(), o.Log)
	l := o.Limits.withDefaults()
	s.limits.Store(&l)
	s.topics = newTopics(l, gate.Now())
	return s, nil
}

// maxFrame bounds what a client may send, in bytes.
func (s *Server) maxFrame() int { return s.o.MaxMessageSize + pulsarwire.FramePadding }

// Apply changes the limits while the server runs. Topics and groups that go on
// existing keep the tokens that they have.
func (s *Server) Apply(l Limits) {
	l = l.withDefaults()
	s.limits.Store(&l)
	s.topics.apply(l, s.gate.Now())
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
		Connections: s.sessions.Load(), Producers: s.producers.Load(), Topics: int64(s.topics.size()),
		HeldFrames: s.heldFrames.Load(), HeldBytes: s.heldBytes.Load(), Paused: s.paused.Load(),
	}
}

// Backends returns how the brokers answer.
func (s *Server) Backends() []ingress.BackendStatus { return s.health.Status(time.Now()) }

// ServeConn serves one client and closes c. When ctx ends it reads nothing more,
// waits for the receipts of what was forwarded and returns; messages that are
// held are left to the client, which sends them again where it connects next.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) {
	defer c.Close()
	hello, connect, err := s.greet(ctx, c)
	if err != nil {
		s.fault(c, err)
		return
	}
	broker, err := s.dial(ctx, c, connect)
	if err != nil {
		s.fault(c, err)
		return
	}
	defer broker.Close()
	if _, err := broker.Write(hello); err != nil {
		s.fault(c, err)
		return
	}
	s.sessions.Add(1)
	defer s.sessions.Add(-1)
	session := newSession(s, c, broker, connect.Throttling)
	session.health = s.health.Of(s.wanted(connect))
	s.fault(c, session.run(ctx))
}

// greet reads the CONNECT of a client. hello is the frame to send to the broker.
func (s *Server) greet(ctx context.Context, c net.Conn) (hello []byte, connect pulsarwire.Connect, err error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetReadDeadline(time.Now().Add(s.o.DialTimeout)); err != nil {
		return nil, connect, err
	}
	f, err := pulsarwire.NewReader(c, maxCommand).Next()
	if err != nil {
		return nil, connect, err
	}
	if f.Type != pulsarwire.TypeConnect {
		return nil, connect, fmt.Errorf("%w: command %d before CONNECT", pulsarwire.ErrMalformed, f.Type)
	}
	if connect, err = pulsarwire.DecodeConnect(f.Body); err != nil {
		return nil, connect, err
	}
	body, err := pulsarwire.StripConnect(nil, f.Body)
	if err != nil {
		return nil, connect, err
	}
	return pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, body), connect, c.SetReadDeadline(time.Time{})
}

// wanted returns the address of the broker that a client wants.
func (s *Server) wanted(connect pulsarwire.Connect) string {
	if connect.ProxyToBroker != "" {
		return brokerAddress(connect.ProxyToBroker)
	}
	return s.o.Backend
}

// dial connects to the broker that the client wants, if it may have it. When it
// may not, or the broker cannot be reached, the client is told.
func (s *Server) dial(ctx context.Context, c net.Conn, connect pulsarwire.Connect) (net.Conn, error) {
	address := s.wanted(connect)
	if !s.brokers.allows(address) {
		s.o.Observer.Happened(EventBrokerRefused)
		s.tell(c, refusal(noRequest, pulsarwire.NotAllowedError, "broker is not on the gate's list of brokers"))
		return nil, fmt.Errorf("pulsargate: broker %q is not on the list of brokers", address)
	}
	bounded, cancel := context.WithTimeout(ctx, s.o.DialTimeout)
	defer cancel()
	broker, err := s.o.Dial(bounded, address)
	if err != nil {
		if ctx.Err() == nil { // else nobody waited for it
			s.health.Of(address).Failed(undialled(err), err)
		}
		s.tell(c, refusal(noRequest, pulsarwire.ServiceNotReady, "broker cannot be reached"))
		return nil, fmt.Errorf("pulsargate: broker %q: %w", address, err)
	}
	return broker, nil
}

// undialled returns why a broker could not be dialled.
func undialled(err error) ingress.Cause {
	if isTimeout, ok := errors.AsType[net.Error](err); ok && isTimeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return ingress.Silent
	}
	return ingress.Unreachable
}

// tell writes a last word to a client that has no session.
func (s *Server) tell(c net.Conn, frame []byte) {
	if c.SetWriteDeadline(time.Now().Add(s.o.DialTimeout)) == nil {
		_, _ = c.Write(frame) // the connection is closed next, whether it arrived or not
	}
}

// fault counts and logs why a connection ended, unless that is how they end.
func (s *Server) fault(c net.Conn, err error) {
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return
	case errors.Is(err, pulsarwire.ErrMalformed), errors.Is(err, pulsarwire.ErrTooLarge):
		s.o.Observer.Happened(EventProtocolError)
	case errors.Is(err, errStalled), errors.Is(err, os.ErrDeadlineExceeded):
		s.o.Observer.Happened(EventStalled)
	}
	s.o.Log.Info("connection ended", slog.String("client", c.RemoteAddr().String()), slog.Any("error", err))
}
