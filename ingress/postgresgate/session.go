package postgresgate

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// phase is how far a connection has come.
type phase = uint32

// The phases.
const (
	phaseStartup phase = iota // the client's messages have no type
	phaseAsked                // the backend was asked for encryption, and answers with one byte
	phaseOpaque               // encrypted end to end: nothing can be seen
	phaseCancel               // a request to cancel was passed
	phaseLogin                // until the first ReadyForQuery
	phaseReady
)

// session is what the gate knows of one connection. It is a [relay.Protocol].
type session struct {
	srv    *Server
	rs     *relay.Session // set by the first message
	remote netip.Addr
	phase  atomic.Uint32
	who    startup // written by the client's side before the login
	tls    bool    // the gate ended the client's TLS
	// reserved: the connection has one of the places that are kept for those who
	// must get in.
	reserved bool

	unit     unit
	prepared map[string]task // by name; the client's side only
	key      string          // the last partition key, so that it is not made anew
	keyBuf   []byte
	shapeBuf []byte // scratch, of the client's side

	cancelKey string // guarded by the server's keys

	mu   sync.Mutex // guards back
	back backState
	copy atomic.Uint32
	// answers is how many of what the unit asked were answered.
	answers atomic.Int32
	fed     atomic.Bool // the client ended its rows in the unit that is at work
	half    atomic.Bool // a unit was begun, and its Sync has not come
	gone    atomic.Bool // the client, before its answer came
}

// How far copying into the server has come in the unit that is at work.
const (
	copyNone  uint32 = iota
	copyTakes        // the server takes rows, and ignores a Sync
	copyOver         // it took some, and failed
)

// unit is what the client sends up to a ReadyForQuery; the client's side only.
type unit struct {
	open     bool  // some of it was passed
	synced   bool  // its end was passed: the next one begins when this is answered
	simple   bool  // it is a simple query or a function call
	parsed   bool  // a Parse was passed
	closes   bool  // what was passed only closes, which cannot fail
	flushed  bool  // a Flush was the last that was passed
	asked    int32 // how many messages were passed that have an answer each
	admitted bool  // nothing of it needs a permit any more
	free     bool  // unless what comes does more than what did so far
	copied   bool  // the client ended its rows
	ended    bool  // and the Sync behind them was passed
	refused  bool  // what follows up to Sync is swallowed
}

// backState is what the backend's side tells the client's.
type backState struct {
	status      byte // transaction status of the last ReadyForQuery, 0 before the first
	application string
	superuser   bool
	failed      bool            // an error was passed in this unit
	failedLast  bool            // and in the one before
	outcome     limiter.Outcome // of the unit so far
	works       bool            // the unit does something of which the latency can teach
	unfair      bool            // its latency is the client's as much as the server's
	refusal     []byte          // stands in for the next ReadyForQuery; nil = none
	kept        bool            // the permit is kept although the session is idle in a transaction
}

// Size implements [relay.Protocol].
func (s *session) Size(from relay.Side, b []byte) (total, need int, err error) {
	ph := s.phase.Load()
	if ph == phaseStartup && from == relay.Client && s.passesTLS(b[0]) {
		s.phase.Store(phaseOpaque)
		s.noteOpaque()
		ph = phaseOpaque
	}
	switch {
	case ph == phaseOpaque:
		return len(b), len(b), nil
	case ph == phaseAsked && from == relay.Backend && b[0] != msgError:
		return 1, 1, nil
	case from == relay.Client && (ph == phaseStartup || ph == phaseAsked || ph == phaseCancel):
		total, err = startupSize(b)
		return total, total, err
	case from == relay.Client && ph == phaseLogin:
		total, err = messageSize(b, maxLogin)
		return total, headerLen, err
	}
	total, err = messageSize(b, maxMessage)
	return total, min(total, wanted(from, b)), err
}

// wanted is how much of the typed message at the head of b has to be seen.
func wanted(from relay.Side, b []byte) int {
	if from == relay.Client {
		switch b[0] {
		case msgQuery, msgParse, msgBind, msgClose:
			return seen
		}
		return headerLen
	}
	switch b[0] {
	case msgError, msgParameterStatus, msgKeyData, msgAuthentication:
		return seen
	case msgReady:
		return headerLen + 1
	}
	return headerLen
}

// Done implements [relay.Protocol]: only an open transaction keeps a connection
// in a drain, a login, and what cannot be seen. Who goes is told so, as by a
// server that shuts down.
func (s *session) Done(bool) bool {
	ph, st := s.phase.Load(), s.status()
	if ph == phaseOpaque || ph == phaseLogin || st == statusInTxn || st == statusFailed {
		return false
	}
	if ph == phaseReady {
		_ = s.rs.Tell(appendShutdown(nil, s.srv.name)) // one who does not read learns it from the end
	}
	return true
}

// Inspect implements [relay.Protocol].
func (s *session) Inspect(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if s.rs == nil {
		s.rs = rs
		if s.srv.o.KeepInTransaction {
			rs.Rest()
		}
	}
	switch s.phase.Load() {
	case phaseReady:
		if s.who.replication {
			return s.replicate(m)
		}
		return s.work(rs, m)
	case phaseLogin:
		return s.logsIn(rs, m.Bytes[0]), nil
	case phaseOpaque:
		return relay.Verdict{}, nil
	default:
		return s.start(rs, m)
	}
}

// status returns the transaction status of the session.
func (s *session) status() byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.status
}

// failing reports whether the server reported an error in this unit.
func (s *session) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.failed
}

// erredLast reports whether the server reported an error in the last unit.
func (s *session) erredLast() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.failedLast
}

// Farewell implements [relay.Ender]: a server waits for ever for rows, or for the
// end of a unit. Neither is made up: what its client did not finish fails.
func (s *session) Farewell() []byte {
	if s.phase.Load() != phaseReady || s.who.replication {
		return nil
	}
	s.gone.Store(true)
	if s.unit.open && !s.unit.synced {
		fail := appendMessage(failCopy(), msgParse, []byte("\x00client has gone\x00\x00\x00")...) // no statement: nothing is committed
		return appendMessage(fail, msgSync)
	}
	return s.endRows()
}

// Waits implements [relay.Ender]. A server that takes rows does little else; one
// that has a unit without its Sync may be at work, so that only a silence in
// which everybody else would be cut tells that nobody works.
func (s *session) Waits() time.Duration {
	switch {
	case s.copy.Load() == copyTakes && !s.fed.Load():
		return time.Nanosecond
	case s.half.Load():
		return s.srv.o.FrameTimeout
	}
	return 0
}

// endRows returns what fails the copying of a client that has gone, once; nil
// while the server takes no rows.
func (s *session) endRows() []byte {
	if !s.copy.CompareAndSwap(copyTakes, copyOver) {
		return nil
	}
	return appendMessage(failCopy(), msgSync) // the one that came before the rows was ignored
}

// failCopy returns a message that fails the copying that is at work, if any.
func failCopy() []byte { return appendMessage(nil, msgCopyFail, []byte("client has gone\x00")...) }

// replicate passes what a replicating client sends; nothing of it is admitted.
func (s *session) replicate(m relay.Message) (relay.Verdict, error) {
	v := relay.Verdict{Expect: m.Bytes[0] == msgQuery || m.Bytes[0] == msgSync}
	// Streaming has no end that a drain could wait for.
	v.Idle = m.Bytes[0] == msgQuery && sqltext.Begins(m.Bytes[headerLen:], "START_REPLICATION")
	return v, nil
}
