package postgresgate

import (
	"net/netip"
	"sync"
	"sync/atomic"

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

	unit     unit
	prepared map[string]statement // by name; the client's side only
	key      string               // the last partition key, so that it is not made anew
	keyBuf   []byte

	cancelKey string // guarded by the server's keys

	mu     sync.Mutex // guards back
	back   backState
	copies atomic.Bool // the server takes copied rows, and no Sync
}

// unit is what the client sends up to a ReadyForQuery; the client's side only.
type unit struct {
	open     bool // some of it was passed
	synced   bool // its end was passed: the next one begins when this is answered
	admitted bool
	refused  bool // what follows up to Sync is swallowed
}

// backState is what the backend's side tells the client's.
type backState struct {
	status      byte // transaction status of the last ReadyForQuery, 0 before the first
	application string
	superuser   bool
	failed      bool            // an error was passed in this unit
	outcome     limiter.Outcome // of the unit so far
	sample      bool            // the unit's latency may teach
	refusal     []byte          // stands in for the next ReadyForQuery; nil = none
	kept        bool            // the permit is kept although the session is idle in a transaction
}

// Size implements [relay.Protocol].
func (s *session) Size(from relay.Side, b []byte) (total, need int, err error) {
	switch ph := s.phase.Load(); {
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

// Done implements [relay.Protocol]: only an open transaction keeps a
// connection in a drain, and what cannot be seen.
func (s *session) Done(bool) bool {
	if s.phase.Load() == phaseOpaque {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.back.status != statusInTxn && s.back.status != statusFailed
}

// Inspect implements [relay.Protocol].
func (s *session) Inspect(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if s.rs == nil {
		s.rs = rs
	}
	switch s.phase.Load() {
	case phaseReady:
		if s.who.replication {
			return s.replicate(m)
		}
		return s.work(rs, m)
	case phaseLogin, phaseOpaque:
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

// replicate passes what a replicating client sends; nothing of it is admitted.
func (s *session) replicate(m relay.Message) (relay.Verdict, error) {
	v := relay.Verdict{Expect: m.Bytes[0] == msgQuery || m.Bytes[0] == msgSync}
	// Streaming has no end that a drain could wait for.
	v.Idle = m.Bytes[0] == msgQuery && equalFold(firstWord(m.Bytes[headerLen:]), "START_REPLICATION")
	return v, nil
}

// firstWord returns the word that b begins with.
func firstWord(b []byte) []byte {
	l := lexer{b: b}
	return l.peek()
}
