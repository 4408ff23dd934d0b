package postgresgate

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/ingress/relay"
)

// session is what the gate knows of one connection. It is a [relay.Protocol].
type session struct {
	srv   *Server
	o     *settings      // under which the connection came
	rs    *relay.Session // set by the first message
	login login

	// Only for the client's side.
	unit     unit
	prepared prepared
	key      key
	asked    int8 // statements of the catalogues that passed before any other; see maxCatalogue

	cancelKey string // guarded by the server's keys, as is the next
	pid       uint32 // of the backend's process; 0 = unknown
	back      backend
	unsent    unsent
	answers   atomic.Int32 // how many of what the unit asked were answered
	gone      atomic.Bool  // the client, before its answer came
}

// newSession returns what is known of a client before it spoke.
func newSession(srv *Server, c net.Conn) *session {
	o := srv.current.Load()
	return &session{
		srv: srv, o: o, login: login{srv: srv, o: o, remote: ingress.ClientAddr(c), reserved: ingress.Reserved(c)},
		prepared: prepared{reader: reader{learner: srv.learner}},
	}
}

// Size implements [relay.Protocol].
func (s *session) Size(from relay.Side, b []byte) (total, need int, err error) {
	ph := s.login.phase.Load()
	if ph == phaseStartup && from == relay.Client && s.login.passesTLS(b[0]) {
		s.login.phase.Store(phaseOpaque)
		s.login.noteOpaque()
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
	if from == relay.Backend && b[0] == msgDataRow && s.back.row1.Load() {
		return total, min(total, headerLen+7), err
	}
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
// in a drain, a login for a second, and what cannot be seen. Who goes is told so, as by a
// server that shuts down.
func (s *session) Done(bool) bool {
	ph, st := s.login.phase.Load(), s.back.now().status
	if ph == phaseLogin && s.rs.DrainingFor() > relay.DrainGrace {
		_ = s.rs.Tell(appendTurnedAway(nil, s.srv.name, ingress.Draining))
		return true
	}
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
		if s.o.IdleInTransaction != IdleRelease {
			rs.Rest()
		}
	}
	switch s.login.phase.Load() {
	case phaseReady:
		if s.login.who.replication {
			return replicate(m), nil
		}
		return s.work(rs, m)
	case phaseLogin:
		return s.login.goesOn(rs, m.Bytes[0]), nil
	case phaseOpaque:
		return relay.Verdict{}, nil
	default:
		return s.start(rs, m)
	}
}

// start decides about a message before the login.
func (s *session) start(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if rs.Owes() { // the backend's word on encryption is to come
		return relay.Verdict{Action: relay.Wait}, nil
	}
	switch code := startupCode(m.Bytes); {
	case code == codeTLS && m.Total == 8 && s.o.TLS != nil && !s.login.tls:
		s.login.tls = true
		return relay.Verdict{Action: relay.Swallow, Answer: []byte{'S'}, Secure: s.o.TLS}, nil
	case (code == codeTLS || code == codeGSS) && m.Total == 8:
		return s.login.ask(rs), nil
	case code == codeCancel && m.Total >= 16:
		return s.cancel(rs, m)
	case code>>16 == 3:
		return s.greet(rs, m)
	}
	s.login.phase.Store(phaseLogin) // for the server to refuse
	return relay.Verdict{Expect: true}, nil
}

// cancel takes a request to cancel what another session is at to that
// session's backend. One that still waits for its permit gives up.
func (s *session) cancel(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	s.login.phase.Store(phaseCancel)
	if other := s.srv.keys.find(m.Bytes[8:]); other != nil {
		if other.rs.Interrupt() {
			return relay.Verdict{Action: relay.Swallow}, relay.ErrDrained
		}
		if err := rs.Connect(other.rs.Backend()); err != nil {
			return relay.Verdict{}, err
		}
	}
	return relay.Verdict{}, nil // the server's answer is that it closes the connection
}

// greet takes the message that begins the login.
func (s *session) greet(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if err := s.login.enters(rs, m.Bytes); err != nil {
		return relay.Verdict{}, err
	}
	if err := s.srv.reach(rs); err != nil {
		return relay.Verdict{}, err
	}
	s.back.setting([]byte("application_name"), []byte(s.login.who.application))
	s.unit = unit{open: true, synced: true, simple: true} // work begins when the login is answered
	return relay.Verdict{Expect: true, Idle: true}, nil   // nobody waits for it when the client has gone
}

// reach connects a client that is not in yet to a server. Where none can be reached
// it is told so, in words that send it to the next host of its list: behind a gate
// that answers it would not look for one by itself.
func (s *Server) reach(rs *relay.Session) error {
	if err := rs.Connect(""); err != nil {
		return errors.Join(err, rs.Tell(appendError(nil, errorFields{
			severity: "FATAL", code: stateElsewhere, message: "ingress " + s.name + " cannot reach its server", hint: "try another host",
		})))
	}
	return nil
}

// Farewell implements [relay.Ender]: a server waits for ever for rows, or for the
// end of a unit. Neither is made up: what its client did not finish fails.
func (s *session) LastRefusals() []byte {
	if s.login.phase.Load() != phaseReady || s.login.who.replication {
		return nil
	}
	s.gone.Store(true)
	if s.unit.open && !s.unit.synced {
		fail := appendMessage(failCopy(), msgParse, []byte("\x00client has gone\x00\x00\x00")...) // no statement: nothing is committed
		return appendMessage(fail, msgSync)
	}
	return s.unsent.endRows()
}

// Waits implements [relay.Ender].
func (s *session) Waits() time.Duration { return s.unsent.waits(s.o.FrameTimeout) }

// replicate passes what a replicating client sends; nothing of it is admitted.
func replicate(m relay.Message) relay.Verdict {
	v := relay.Verdict{Expect: m.Bytes[0] == msgQuery || m.Bytes[0] == msgSync}
	// Streaming has no end that a drain could wait for.
	v.Idle = m.Bytes[0] == msgQuery && sqltext.Begins(m.Bytes[headerLen:], "START_REPLICATION")
	return v
}
