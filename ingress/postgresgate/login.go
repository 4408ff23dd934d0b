package postgresgate

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/relay"
)

// start decides about a message before the login.
func (s *session) start(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if rs.Owes() { // the backend's word on encryption is to come
		return relay.Verdict{Action: relay.Wait}, nil
	}
	switch code := startupCode(m.Bytes); {
	case code == codeTLS && m.Total == 8 && s.srv.o.TLS != nil && !s.tls:
		s.tls = true
		return relay.Verdict{Action: relay.Swallow, Answer: []byte{'S'}, Secure: s.srv.o.TLS}, nil
	case (code == codeTLS || code == codeGSS) && m.Total == 8:
		return s.ask(), nil
	case code == codeCancel && m.Total >= 16:
		return s.cancel(rs, m)
	case code>>16 == 3:
		return s.greet(rs, m)
	}
	s.phase.Store(phaseLogin) // for the server to refuse
	return relay.Verdict{Expect: true}, nil
}

// ask deals with a wish for encryption that the gate does not end: the backend
// is asked, unless the gate is the one that encrypts towards it.
func (s *session) ask() relay.Verdict {
	if s.srv.o.TLS != nil || s.srv.o.BackendTLS != nil || s.tls {
		return relay.Verdict{Action: relay.Swallow, Answer: []byte{'N'}}
	}
	s.phase.Store(phaseAsked)
	return relay.Verdict{Expect: true}
}

// answered takes the backend's word on encryption.
func (s *session) answered(b byte) relay.Verdict {
	switch b {
	case 'S', 'G':
		s.phase.Store(phaseOpaque)
		s.noteOpaque()
	case msgError: // a server that knows no encryption
		s.phase.Store(phaseLogin)
	default:
		s.phase.Store(phaseStartup)
	}
	return relay.Verdict{Last: true}
}

// passesTLS reports whether a client that begins with b begins TLS, which ends at
// the backend: where the gate ended it, b would be below it.
func (s *session) passesTLS(b byte) bool {
	return b == recordHandshake && !s.tls && s.srv.o.TLS == nil && s.srv.o.BackendTLS == nil
}

// noteOpaque counts a connection of which nothing more can be seen.
func (s *session) noteOpaque() {
	s.srv.counters.opaque.Add(1)
	s.srv.once.opaque.Do(func() {
		s.srv.o.Log.Warn("a client's encryption ends at the backend: its work cannot be admitted, only its connection. "+
			"Set tls and backendTLS to end it in the gate", slog.String("ingress", s.srv.name))
	})
}

// logsIn decides about a message of a client that logs in. What it sends ahead
// of the server's word is work, and waits until it is in.
func (s *session) logsIn(rs *relay.Session, kind byte) relay.Verdict {
	if kind != msgPassword && kind != msgTerminate && rs.Owes() {
		return relay.Verdict{Action: relay.Wait}
	}
	return relay.Verdict{}
}

// cancel takes a request to cancel what another session is at to that
// session's backend. One that still waits for its permit gives up.
func (s *session) cancel(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	s.phase.Store(phaseCancel)
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
	s.who = parseStartup(m.Bytes)
	s.mu.Lock()
	s.back.application = s.who.application
	s.mu.Unlock()
	switch {
	case rs.Draining():
		return relay.Verdict{}, s.turnAway(rs, ingress.Draining)
	case s.reserved && !s.privileged() && s.srv.users.isOrdinary(s.who.user):
		return relay.Verdict{}, s.turnAway(rs, ingress.OverOpen)
	}
	s.phase.Store(phaseLogin)
	s.unit = unit{open: true, synced: true, simple: true} // work begins when the login is answered
	return relay.Verdict{Expect: true, Idle: true}, nil   // nobody waits for it when the client has gone
}

// turnAway tells the client why it cannot come in, and returns the connection's
// end.
func (s *session) turnAway(rs *relay.Session, why ingress.Refusal) error {
	return errors.Join(errTurnedAway, rs.Tell(appendTurnedAway(nil, s.srv.name, why)))
}

// privileged reports whether the session may have a reserved place, as far as
// that is known before the login.
func (s *session) privileged() bool {
	o := &s.srv.o
	return s.who.replication || slices.Contains(o.Exempt.Users, s.who.user) ||
		slices.ContainsFunc(o.Exempt.Clients, func(p netip.Prefix) bool { return p.Contains(s.remote) })
}

// loggedIn takes the end of the login. Who has a reserved place and is nobody
// special loses it: only now is it known who is a superuser.
func (s *session) loggedIn(rs *relay.Session) error {
	s.mu.Lock()
	super := s.back.superuser
	s.mu.Unlock()
	s.srv.users.learn(s.who.user, super)
	if s.reserved && !super && !s.privileged() {
		return s.turnAway(rs, ingress.OverOpen)
	}
	s.phase.Store(phaseReady)
	return nil
}

// login reads what the backend says before the first ReadyForQuery, and what it
// repeats of that later.
func (s *session) login(m relay.Message) {
	body := m.Bytes[min(headerLen, len(m.Bytes)):]
	switch m.Bytes[0] {
	case msgParameterStatus:
		name, rest, _ := cutString(body)
		value, _, _ := cutString(rest)
		s.setting(name, value)
	case msgKeyData:
		if m.Whole() {
			s.srv.keys.add(body, s)
		}
	}
}

// binding is how a server offers SCRAM with channel binding.
const binding = "SCRAM-SHA-256-PLUS\x00"

// authentication returns what takes the place of a server's word on how to log
// in; nil = nothing. Channel binding cannot work through a gate that speaks TLS
// to the server: clients without TLS take the offer for an attack, and do not
// get it; those with TLS would, without the offer.
func (s *session) authentication(m relay.Message) []byte {
	if s.srv.o.BackendTLS == nil || !m.Whole() || len(m.Bytes) < headerLen || !bytes.Contains(m.Bytes, []byte(binding)) {
		return nil
	}
	if !s.tls {
		return appendMessage(nil, msgAuthentication, bytes.Replace(m.Bytes[headerLen:], []byte(binding), nil, 1)...)
	}
	s.srv.once.binding.Do(func() {
		s.srv.o.Log.Warn("the backend offers SCRAM with channel binding, which cannot work through TLS that ends in the gate: "+
			"clients need channel_binding=disable", slog.String("ingress", s.srv.name))
	})
	return nil
}

// setting takes a setting that the server reports.
func (s *session) setting(name, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch string(name) {
	case "application_name":
		s.back.application = string(value[:min(len(value), maxFact)])
	case "is_superuser":
		s.back.superuser = string(value) == "on"
	}
}
