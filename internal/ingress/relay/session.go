package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
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
	// ErrTurnedAway: the protocol told the client why it does not come in. A
	// protocol returns it from Inspect or Landed.
	ErrTurnedAway = errors.New("relay: turned away")

	errPanic  = errors.New("relay: the protocol panicked")
	errNobody = errors.New("relay: nothing left to finish for a client that left")
)

// Session is one client and, once a message passed, its backend. Each of its two
// sides reads one of them with a goroutine of its own: the client's with that of
// [Relay.Serve]. While nothing happens both may be gone: see sleep.go.
//
// What a message touches stands together, and in few objects: with hundreds of busy
// sessions each finds its memory cold, and waits for every line of it.
type Session struct {
	Turn

	p Protocol
	capabilities
	up     clientSide
	client peerWriter
	down   *backendSide // set with the server
	server
	changed broadcast
	stalled atomic.Bool
	life    sessionState
	parking idleSides

	raw     net.Conn    // of the client, below TLS; closing it ends both sides
	undrain func() bool // has the drain not be told to the session any more
	cause   error       // why the session ended
}

// side is what the two sides of a session have in common: what it reads, and how
// it waits for that.
type side struct {
	*Session

	from    Side
	woken   bool   // no bound is set to setIdleDeadline before the next read
	timed   bool   // a deadline is set
	due     uint64 // the look of the watch in which it was, to setIdleDeadline; 0 = it is another
	in      connReader
	reading progressWatch // a message of which the rest is to come
	anew    func()        // begins the side again that slept, and does not block; nil = it does not sleep
	bed     uint64        // where it sleeps; 0 = it is awake; guarded by idleSides.mu
}

// capabilities are what a protocol is besides; nil = it is not.
type capabilities struct {
	follow Follower
	many   Multiplexer
}

// server is what a session knows of its backend.
type server struct {
	backend atomic.Pointer[peerWriter] // nil = not connected
	address string
	health  *ingress.Backend
}

// life is how far a session has come.
type sessionState struct {
	began    time.Time
	greeted  bool          // a message was decided about; client's side only
	poll     time.Duration // until a draining session looks again; client's side only
	draining atomic.Bool
	drained  atomic.Int64 // since began, when the drain began, in nanoseconds
	answered atomic.Bool  // since the drain began
	leaving  atomic.Bool  // the client's side has ended
	hungUp   atomic.Bool  // the backend's connection was closed here
	lost     atomic.Bool  // the backend has ended it
}

// Serve moves messages between client, which it closes, and a backend until
// either has gone, or ctx is done, which begins a drain, and p lets it end. It
// returns why: [ErrDrained] among others.
func (c *Relay) Serve(ctx context.Context, client net.Conn, p Protocol) error {
	var cause error
	c.Begin(ctx, client, p, nil, func(err error) { cause = err })()
	return cause
}

// Begin is [Relay.Serve] for those who give their goroutine back while nothing
// happens. What it returns serves the session until it is over, or until the
// client's side sleeps. In the latter case wake is called when something happens,
// from any goroutine; it must not block, and have another goroutine call what
// Begin returned again. ended is told why the session ended, once. A nil wake =
// the client's side never sleeps.
func (c *Relay) Begin(ctx context.Context, client net.Conn, p Protocol, wake func(), ended func(error)) (serve func() (over bool)) {
	s := newSession(ctx, c, client, p)
	s.up.anew = wake
	c.watch.add(s)
	s.undrain = context.AfterFunc(ctx, s.drain)
	return func() (over bool) { return s.serve(ctx, ended) }
}

// newSession returns a session that has not begun.
func newSession(ctx context.Context, c *Relay, client net.Conn, p Protocol) *Session {
	s := &Session{Turn: Turn{c: c, o: c.current.Load(), ctx: context.WithoutCancel(ctx)}, p: p, raw: client, cause: errPanic}
	raw := rawOf(client)
	s.client.begin(client, raw)
	s.up.Session, s.up.from = s, Client
	s.up.in.begin(client, raw, &s.o.windows)
	s.up.wait = waitContext{conn: client, before: s.up.settle}
	s.follow, _ = p.(Follower)
	s.many, _ = p.(Multiplexer)
	s.life.began = time.Now()
	return s
}

// Protocol returns what was given to [Relay.Begin].
func (s *Session) Protocol() Protocol { return s.p }

// Now returns the gate's monotonic clock in nanoseconds.
func (s *Session) Now() int64 { return s.c.gate.Now() }

// Draining reports whether a drain has begun.
func (s *Session) Draining() bool { return s.life.draining.Load() }

// DrainingFor returns how long ago the drain began; 0 = it did not.
func (s *Session) DrainingFor() time.Duration {
	if !s.Draining() {
		return 0
	}
	return time.Since(s.life.began) - time.Duration(s.life.drained.Load())
}

// Backend returns the address of the backend, "" while there is none.
func (s *Session) Backend() string {
	if s.backend.Load() == nil {
		return ""
	}
	return s.address
}

// Lost reports, when the session is over, whether the backend ended it.
func (s *Session) Lost() bool { return s.life.lost.Load() }

// Wake has the client's side ask again about a message that waits. It is safe
// for concurrent use.
func (s *Session) Wake() { s.changed.wake() }

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
	dialer := s.c.current.Load().Dialer
	c, at, err := dialer.Dial(s.ctx, address)
	if err != nil {
		outcome := limiter.Dropped
		if ingress.LacksDescriptors(err) {
			outcome = limiter.Ignored
		}
		s.End(outcome)
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, at, err)
	}
	s.address, s.health = at, dialer.health.Of(at)
	d := &backendSide{ended: make(chan struct{})}
	raw := rawOf(c)
	d.Session, d.from, d.anew = s, Backend, func() { go d.loop() }
	d.in.begin(c, raw, &s.o.windows)
	d.lane.begin(c, raw)
	s.down = d
	s.backend.Store(&d.lane)
	go d.loop()
	if !s.c.current.Load().Dialer.allowed(at) { // another backend was configured meanwhile
		s.drain()
	}
	return nil
}

// Responded counts an answer of the backend to a request. Only from Landed.
func (s *Session) Responded(failed bool) {
	response := ingress.ResponseOK
	if failed {
		response = ingress.ResponseError
	}
	s.o.Counts.Responded(response)
}

// serve runs the client's side until the session is over, and calls ended then,
// or until that side sleeps.
func (s *Session) serve(ctx context.Context, ended func(error)) (over bool) {
	over = true // also when the protocol panics
	defer func() {
		if over {
			defer func() { ended(s.cause) }()
			defer s.c.forget(s)
			defer s.undrain()
			s.up.end()
		}
	}()
	for {
		cause := s.up.run(ctx)
		if !errors.Is(cause, errIdle) {
			s.cause = cause
			return true
		}
		if s.up.parkIdle() {
			return false
		}
	}
}

// leave notes that the client has gone. It reports whether the backend is at
// work for it all the same.
func (s *Session) leave() (working bool) {
	working = s.Turn.leave(s.life.lost.Load())
	if s.many != nil && s.many.Leave() {
		working = true
	}
	return working
}

// head returns the message at the head of what was read. ok is false when more of
// it must be read first.
func (s *side) head() (m Message, ok bool, err error) {
	in := &s.in
	b := in.next()
	if len(b) == 0 {
		return m, false, nil
	}
	total, need, err := s.p.Size(s.from, b)
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

// advance moves behind what is there of a message of which left bytes are to come
// and shown were seen by the protocol, and returns it.
func (s *side) advance(left, shown *int) (part []byte) {
	in := &s.in
	part = in.next()
	part = part[:min(*left, len(part))]
	if len(part) > *shown && s.follow != nil {
		s.follow.Follow(s.from, part[*shown:])
	}
	*shown = max(0, *shown-len(part))
	*left -= len(part)
	in.p += len(part)
	return part
}
