package relay

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

// Side is one of the two ends of a session.
type Side uint8

// The sides.
const (
	Client Side = iota
	Backend
)

// A Protocol is what the relay has to know about the messages of one
// connection. Size and Inspect of the client's messages are called by one
// goroutine, Size and Landed of the backend's by another; what both sides use
// the protocol guards by itself, except what is written before a message is
// expected and read when its answer lands.
type Protocol interface {
	// Size tells how long the message at the head of b is, and how many of its
	// first bytes Inspect or Landed wants to see; more than the relay's
	// window holds are not shown. total is 0 while b is too short to tell.
	Size(from Side, b []byte) (total, need int, err error)
	// Inspect decides about a message of the client. An error ends the
	// connection.
	Inspect(s *Session, m Message) (Verdict, error)
	// Landed decides about a message of the backend.
	Landed(s *Session, m Message) (Verdict, error)
	// Done reports, in a drain, whether the connection may be closed now that
	// nothing is unanswered. answered is true when the client got an answer
	// since the drain began: a client that is busy looks for another gate as
	// soon as its connection is closed. It is called by the client's side.
	Done(answered bool) bool
}

// A Follower is a [Protocol] that wants to see the rest of long messages.
type Follower interface {
	// Follow is called with what Inspect or Landed was not shown of a message,
	// as it passes.
	Follow(from Side, part []byte)
}

// A Multiplexer is a [Protocol] in which several messages of a connection are
// at work at once. It opens no turn, and keeps its permits itself.
type Multiplexer interface {
	// Keep is handed a message that Inspect said to [Keep], whole and in memory
	// of its own, when everything before it was forwarded. One that never
	// arrives whole is not.
	Keep(message []byte)
	// Leave is called once the client has gone, perhaps several times and by
	// either side. It reports whether the backend is at work for it all the
	// same: what it answers is then read to nobody, until Landed says
	// [Verdict.Last].
	Leave() (working bool)
}

// A Canceler is a [Protocol] whose backend does not notice in the middle of its
// work that a connection was closed.
type Canceler interface {
	// Cancel tells the backend to stop. It is called by the client's side
	// before the backend's connection is closed, with [Options.Cancel] and while
	// a permit is held for a client that has left.
	Cancel(s *Session)
}

// An Ender is a [Protocol] in which the backend may wait, in the middle of its
// work, for more from its client.
type Ender interface {
	// Farewell returns whole messages that end in the place of a client that has
	// gone what it left unfinished; nil = nothing. It is called by the client's
	// side, when the backend's answer is to be read to nobody.
	LastRefusals() []byte
	// Waits tells how long no byte has to come from the client until the backend
	// is taken to wait for it: the permit is given back then, and taken again by
	// force with the next byte. 0 = its silence says nothing. It is called by
	// any goroutine.
	Waits() time.Duration
}

// Message is a message, or as much of it as is shown.
type Message struct {
	Bytes []byte // from its start; valid until the call returns
	Total int    // length of the whole message in bytes
	Final bool   // no more of it can be shown: the verdict More is none
}

// Whole reports whether all of the message is shown.
func (m *Message) Whole() bool { return len(m.Bytes) == m.Total }

// Action says what becomes of a message.
type Action uint8

// The actions.
const (
	// Pass forwards the message, or Verdict.Instead in its place.
	Pass Action = iota
	// Swallow forwards nothing.
	Swallow
	// More asks again when more of the message is there.
	More
	// Wait asks again when something has changed: an answer was given, or
	// [Session.Wake] was called. Only for messages of the client.
	Wait
	// Keep hands the message to the [Multiplexer], to be sent later. Only for
	// messages of the client.
	Keep
)

// Verdict is what is to be done with a message.
type Verdict struct {
	Action  Action
	Instead []byte // forwarded in place of a message that passes
	// Answer is written to the client, for a message of the client that is
	// swallowed. It is not kept.
	Answer []byte
	// Expect: the message that passes will be answered. Until then
	// [Turn.Owes] is true.
	Expect bool
	// Idle: a drain need not wait for that answer.
	Idle bool
	// Last: the backend's message is the last answer to what was expected; of a
	// [Multiplexer], nothing is at work any more.
	Last bool
	// Secure begins TLS with the client after Answer; only before a backend is
	// connected.
	Secure *tls.Config
}

// Gate decides; [*limiter.Gate] is one.
type Gate interface {
	Admit(ctx context.Context, req limiter.Request) (limiter.Permit, error)
	Now() int64
	Name() string
}

// Defaults of [Options].
const (
	DefaultPatience = 30 * time.Second
	DefaultGreeting = 10 * time.Second
	DefaultLinger   = 10 * time.Second
	DefaultFinish   = 10 * time.Minute
	DefaultRest     = 2 * time.Second
	// DefaultWindow is the most that is shown of a message, in bytes.
	DefaultWindow = 256 << 10

	// perMiB is how much longer than Options.Patience a MiB may take: what
	// moves at 64 KiB a second is never cut.
	perMiB = 16 * time.Second
	// finishBytes bounds what is read to nobody.
	finishBytes = 1 << 20
)

// Options configure a [Relay]. Only Dialer is required.
type Options struct {
	Dialer *Dialer
	// Patience is how long what began to move may stand still: a message of
	// which the rest does not come, an answer that is not read. A MiB may take
	// 16 s longer, so that a slow line is not cut and one that drips is.
	// 0 = [DefaultPatience].
	Patience time.Duration
	// Greeting bounds the time to the first whole message; 0 = [DefaultGreeting].
	Greeting time.Duration
	// Linger is how long answers that hold no permit are still passed on to a
	// client that closed its half of the connection; 0 = [DefaultLinger].
	Linger time.Duration
	// Finish is how long the work for a client that left may hold its permit;
	// 0 = [DefaultFinish].
	Finish time.Duration
	// Rest is how long nothing has come to a side of a session until it sleeps,
	// at most; where a connection is not read raw (TLS, a PROXY header) its side
	// never does. 0 = [DefaultRest], below 0 = never.
	Rest time.Duration
	// Window bounds how much of a message is shown, in bytes; 0 = [DefaultWindow].
	Window int
	// Cancel closes the backend's connection as soon as the client has left,
	// for backends that stop working then. Otherwise the work is finished, and
	// holds its permit until it is.
	Cancel bool
	// Counts counts what the backend answers; see [Session.Responded]. nil = nobody does.
	Counts *ingress.Counts
	// Queued is called when a message begins to wait for its permit, by the
	// client's side. It must not block. nil = nobody is told.
	Queued func()
	// Log is told how connections end, at debug, and at info of those that end badly,
	// all of a second in one line; and of how the backends answer. nil = nobody is.
	Log *slog.Logger
}

// Relay serves the connections of one gate. It is safe for concurrent use.
type Relay struct {
	gate     Gate
	current  atomic.Pointer[settings]
	watch    sessionWatch
	sleepers idlePoller
	bad      ingress.LogLimiter // sessions that ended badly
	ticks    atomic.Uint32
}

// settings are the options of the sessions that began under them.
type settings struct {
	Options

	windows sync.Pool // of *[]byte, Options.Window long
}

// New returns a relay whose sessions are admitted by g.
func New(g Gate, o Options) *Relay {
	c := &Relay{gate: g}
	c.Apply(o)
	return c
}

// Apply replaces the options for sessions that begin from now on; the health of
// backends that stay is kept. Open sessions keep theirs. Those whose backend's
// address is none of the dialer's any more, by [Dialer.Allow], end as in a drain:
// once nothing is in progress, and without a deadline.
func (c *Relay) Apply(o Options) {
	o.Patience = ingress.Or(o.Patience, DefaultPatience)
	o.Greeting = ingress.Or(o.Greeting, DefaultGreeting)
	o.Linger = ingress.Or(o.Linger, DefaultLinger)
	o.Finish = ingress.Or(o.Finish, DefaultFinish)
	o.Rest = ingress.Or(o.Rest, DefaultRest)
	o.Window = max(ingress.Or(o.Window, DefaultWindow), bufSize)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	next := &settings{Options: o}
	next.windows.New = func() any {
		b := make([]byte, o.Window)
		return &b
	}
	if old := c.current.Load(); old != nil {
		o.Dialer.succeed(old.Dialer)
	}
	o.Dialer.health.Log(c.gate.Name(), o.Log)
	c.watch.shorten(o.Patience)
	c.current.Store(next)
	for _, s := range c.watch.all() {
		if l := s.backend.Load(); l != nil && !o.Dialer.allowed(s.address) {
			s.drain()
		}
	}
}

// Backends returns how the backends answer.
func (c *Relay) Backends() []ingress.BackendStatus {
	return c.current.Load().Dialer.health.Status(time.Now())
}

// Tick divides time for [Turn.Suspend]: permits that are held already were taken
// before the tick that it returns. It is safe for concurrent use.
func (c *Relay) Tick() uint32 { return c.ticks.Add(1) }

// Each calls visit with every session, in no order, while no session can begin or
// end: visit must not block. It is safe for concurrent use.
func (c *Relay) Each(visit func(s *Session)) {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	for s := range c.watch.sessions {
		visit(s)
	}
}

// Sessions returns how many sessions there are.
func (c *Relay) Sessions() int64 { return c.watch.size() }
