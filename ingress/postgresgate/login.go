package postgresgate

import (
	"bytes"
	"fmt"
	"log/slog"

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
		s.srv.counters.opaque.Add(1)
		s.srv.once.opaque.Do(func() {
			s.srv.o.Log.Warn("a client's encryption ends at the backend: its work cannot be admitted, only its connection. "+
				"Set tls and backendTLS to end it in the gate", slog.String("ingress", s.srv.name))
		})
	case msgError: // a server that knows no encryption
		s.phase.Store(phaseLogin)
	default:
		s.phase.Store(phaseStartup)
	}
	return relay.Verdict{Last: true}
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
	return relay.Verdict{Expect: true, Idle: true}, nil
}

// greet takes the message that begins the login.
func (s *session) greet(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	s.who = parseStartup(m.Bytes)
	s.mu.Lock()
	s.back.application = s.who.application
	s.mu.Unlock()
	if rs.Draining() {
		return relay.Verdict{Action: relay.Swallow, Answer: appendTurnedAway(nil, s.srv.name)}, nil
	}
	s.phase.Store(phaseLogin)
	return relay.Verdict{Expect: true}, nil
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
	case msgAuthentication:
		if s.tls && s.srv.o.BackendTLS != nil && bytes.Contains(body, []byte("SCRAM-SHA-256-PLUS")) {
			s.srv.once.binding.Do(func() {
				s.srv.o.Log.Warn("the backend offers SCRAM with channel binding, which cannot work through TLS that ends in the gate: "+
					"clients need channel_binding=disable", slog.String("ingress", s.srv.name))
			})
		}
	}
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

// appendTurnedAway appends the answer to a client that cannot log in because the
// gate drains: the code with which libpq and pgx try the next host.
func appendTurnedAway(dst []byte, ingress string) []byte {
	return appendError(dst, errorFields{
		severity: "FATAL", code: "57P03",
		message: fmt.Sprintf("ingress %s is draining", ingress), hint: "try another host",
	})
}
