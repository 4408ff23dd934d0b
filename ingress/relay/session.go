package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// Why a session ends.
var (
	// ErrDrained: a drain found nothing that had to be finished. A protocol
	// returns it from Inspect when it takes nothing more in a drain.
	ErrDrained = errors.New("relay: drained")
	// ErrClientGone: the client left while its message waited.
	ErrClientGone = errors.New("relay: client gone")
	// ErrInterrupted: a message waited no longer because [Session.Interrupt]
	// was called. It ends nothing.
	ErrInterrupted = errors.New("relay: wait interrupted")
	// ErrUnreachable: no backend could be dialled.
	ErrUnreachable = errors.New("relay: backend cannot be reached")
	// ErrBackendGone: the backend closed the connection.
	ErrBackendGone = errors.New("relay: backend gone")
	// ErrStalled: a peer did not read, or not send the rest of a message.
	ErrStalled = errors.New("relay: peer stalled")
	// ErrGreeting: no whole message came in time.
	ErrGreeting = errors.New("relay: no first message in time")

	errPanic  = errors.New("relay: the protocol panicked")
	errNobody = errors.New("relay: nothing left to finish for a client that left")
)

// Session is one client and, once a message passed, its backend. The goroutine
// of [Corridor.Serve] reads the client; another one reads the backend. While
// nothing happens both may be gone: see rest.
type Session struct {
	c *Corridor
	p Protocol
	facets
	raw     net.Conn // of the client, below TLS; closing it ends both sides
	client  *lane
	dial    func(address string) (c net.Conn, at string, err error)
	again   func(limiter.Request) (limiter.Permit, error) // admits what cannot be refused
	life    life
	undrain func() bool // has the drain not be told to the session any more
	turn    turn

	rest rest
	up   *upward
	down *downward // set with the server
	server
	cause error // why the session ended

	reading [2]pace       // messages of which the rest is to come, by side
	changed chan struct{} // holds one value: something changed for who waits
	stalled atomic.Bool
}

// facets are what a protocol is besides; nil = it is not.
type facets struct {
	follow Follower
	many   Multiplexer
}

// server is what a session knows of its backend.
type server struct {
	backend atomic.Pointer[lane] // nil = not connected
	address string
	health  *ingress.Backend
}

// life is how far a session has come.
type life struct {
	began    time.Time
	greeted  bool          // a message was decided about; client's side only
	poll     time.Duration // until a draining session looks again; client's side only
	draining atomic.Bool
	answered atomic.Bool // since the drain began
	leaving  atomic.Bool // the client's side has ended
	hungUp   atomic.Bool // the backend's connection was closed here
	lost     atomic.Bool // the backend has ended it
}

// newSession returns a session that has not begun.
func newSession(ctx context.Context, c *Corridor, client net.Conn, p Protocol) *Session {
	s := &Session{c: c, p: p, raw: client, client: newLane(client)}
	s.up = &upward{Session: s, in: newInlet(client, &c.windows)}
	s.up.wait = patience{conn: client, before: s.up.settle}
	s.follow, _ = p.(Follower)
	s.many, _ = p.(Multiplexer)
	ctx = context.WithoutCancel(ctx) // what is admitted already is served in a drain
	s.dial = func(address string) (net.Conn, string, error) { return c.o.Dialer.Dial(ctx, address) }
	s.again = func(req limiter.Request) (limiter.Permit, error) { return c.gate.Admit(ctx, req) }
	s.life.began = time.Now()
	s.cause = errPanic
	s.changed = make(chan struct{}, 1)
	return s
}

// Now returns the gate's monotonic clock in nanoseconds.
func (s *Session) Now() int64 { return s.c.gate.Now() }

// Owes reports whether the client waits for an answer to a message that passed
// with [Verdict.Expect].
func (s *Session) Owes() bool {
	open, _ := s.turn.owes()
	return open
}

// Draining reports whether a drain has begun.
func (s *Session) Draining() bool { return s.life.draining.Load() }

// Backend returns the address of the backend, "" while there is none.
func (s *Session) Backend() string {
	if s.backend.Load() == nil {
		return ""
	}
	return s.address
}

// Lost reports, when the session is over, whether the backend ended it.
func (s *Session) Lost() bool { return s.life.lost.Load() }

// End ends the session's permit, if it holds one. It is safe for concurrent
// use.
func (s *Session) End(o limiter.Outcome) { s.turn.end(s.c.gate.Now, o) }

// Carried tells how many bytes the request of the permit moved; see
// [limiter.Permit.Carried].
func (s *Session) Carried(bytes int) { s.turn.carried(bytes) }

// Charge spends further tokens on account of the permit; see
// [limiter.Permit.Charge].
func (s *Session) Charge(tokens float64) { s.turn.charge(tokens) }

// Rest says that a permit which the session holds while it owes nothing stands
// for no work, so that nobody waits for its end when the client leaves.
func (s *Session) Rest() { s.turn.rests.Store(true) }

// Wake has the client's side ask again about a message that waits. It is safe
// for concurrent use.
func (s *Session) Wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Tell writes whole messages of the gate to the client, from any goroutine,
// behind the message that is on its way.
func (s *Session) Tell(b []byte) error { return s.client.write(b) }

// Send writes whole messages of the gate to the backend, from any goroutine,
// several with one system call. It consumes the slice of them.
func (s *Session) Send(messages ...[]byte) error {
	l := s.backend.Load()
	if l == nil {
		return ErrBackendGone
	}
	return l.writeAll(messages)
}

// Connect connects to the backend unless one is connected: to address, or to
// one of the dialer's when it is empty. Only for the client's side; a message
// that passes does it by itself.
func (s *Session) Connect(address string) error {
	if s.backend.Load() != nil {
		return nil
	}
	c, at, err := s.dial(address)
	if err != nil {
		s.End(limiter.Dropped)
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, at, err)
	}
	s.address, s.health = at, s.c.o.Dialer.health.Of(at)
	s.down = &downward{Session: s, in: newInlet(c, &s.c.windows), ended: make(chan struct{})}
	s.backend.Store(newLane(c))
	go s.down.loop()
	return nil
}

// head returns the message at the head of in. ok is false when more of it must
// be read first.
func (s *Session) head(in *inlet, from Side) (m Message, ok bool, err error) {
	b := in.next()
	if len(b) == 0 {
		return m, false, nil
	}
	total, need, err := s.p.Size(from, b)
	switch {
	case err != nil:
		return m, false, err
	case total <= 0 && in.full():
		return m, false, errSize
	case total <= 0, len(b) < min(need, total) && !in.full():
		return m, false, nil
	}
	m = Message{Bytes: b[:min(len(b), total)], Total: total}
	m.Final = m.Whole() || in.full() && !in.canGrow()
	return m, true, nil
}

// serve runs the client's side until the session is over, and calls ended then,
// or until that side sleeps.
func (s *Session) serve(ctx context.Context, ended func(error)) (over bool) {
	over = true // also when the protocol panics
	defer func() {
		if over {
			defer func() { ended(s.cause) }()
			s.up.finish()
		}
	}()
	for {
		cause := s.up.run(ctx)
		if !errors.Is(cause, errTired) {
			s.cause = cause
			return true
		}
		if s.lie(Client) {
			return false
		}
	}
}

// leave notes that the client has gone. It reports whether the backend is at
// work for it all the same.
func (s *Session) leave() (working bool) {
	working = s.turn.leave()
	if s.many != nil && s.many.Leave() {
		working = true
	}
	return working
}
