package postgresgate

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
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

// login is how a connection comes to speak for a user. It belongs to the client's
// side, which writes who and tls before the backend hears of it; phase is both's.
type login struct {
	srv    *Server
	o      *settings // under which the connection came
	remote netip.Addr
	phase  atomic.Uint32
	who    startup
	tls    bool // the gate ended the client's TLS
	opaque bool // counted among the open connections that are encrypted end to end
	// reserved: the connection has one of the places that are kept for those who
	// must get in.
	reserved bool
}

// ask answers a request for encryption that the gate does not end: there is none,
// unless the configuration lets TLS pass, and a server can be reached. Before TLS
// clients believe no other word: told none, they ask in the clear, and can be told to
// try another host.
func (l *login) ask(rs *relay.Session) relay.Verdict {
	if !l.o.passesTLS() || l.tls || rs.Connect("") != nil {
		return relay.Verdict{Action: relay.Swallow, Answer: []byte{'N'}}
	}
	l.phase.Store(phaseAsked)
	return relay.Verdict{Expect: true}
}

// answered takes the backend's word on encryption.
func (l *login) answered(b byte) relay.Verdict {
	switch b {
	case 'S', 'G':
		l.phase.Store(phaseOpaque)
		l.noteOpaque()
	case msgError: // a server that knows no encryption
		l.phase.Store(phaseLogin)
	default:
		l.phase.Store(phaseStartup)
	}
	return relay.Verdict{Last: true}
}

// passesTLS reports whether a client that begins with b begins TLS, which ends at
// the backend: where the gate ended it, b would be below it.
func (l *login) passesTLS(b byte) bool {
	return b == recordHandshake && !l.tls && l.o.passesTLS()
}

// noteOpaque counts a connection of which nothing more can be seen.
func (l *login) noteOpaque() {
	l.opaque = true
	l.srv.counters.opaque.Add(1)
	l.srv.counters.opaqueOpen.Add(1)
}

// goesOn decides about a message of a client that logs in. What it sends ahead
// of the server's word is work, and waits until it is in.
func (l *login) goesOn(rs *relay.Session, kind byte) relay.Verdict {
	if kind != msgPassword && kind != msgTerminate && rs.Owes() {
		return relay.Verdict{Action: relay.Wait}
	}
	return relay.Verdict{}
}

// enters reads the message that begins the login; an error turns the client away.
func (l *login) enters(rs *relay.Session, m []byte) error {
	l.who = parseStartup(m)
	switch {
	case rs.Draining():
		return l.turnAway(rs, ingress.Draining)
	case l.reserved && !l.privileged() && l.srv.users.isOrdinary(l.who.user):
		return l.turnAway(rs, ingress.OverOpen)
	}
	l.phase.Store(phaseLogin)
	return nil
}

// turnAway tells the client why it cannot come in, and returns the connection's
// end.
func (l *login) turnAway(rs *relay.Session, why ingress.Refusal) error {
	return errors.Join(relay.ErrTurnedAway, rs.Tell(appendTurnedAway(nil, l.srv.name, why)))
}

// privileged reports whether the session may have a reserved place, as far as
// that is known before the login.
func (l *login) privileged() bool {
	o := l.srv.current.Load()
	return l.who.replication || slices.Contains(o.Exempt.Users, l.who.user) ||
		ingress.In(o.Exempt.Clients, l.remote)
}

// ended takes the end of the login. Who has a reserved place and is nobody
// special loses it: only now is it known who is a superuser.
func (l *login) ended(rs *relay.Session, superuser bool) error {
	l.srv.users.learn(l.who.user, superuser)
	if l.reserved && !superuser && !l.privileged() {
		return l.turnAway(rs, ingress.OverOpen)
	}
	l.phase.Store(phaseReady)
	return nil
}

// binding is how a server offers SCRAM with channel binding.
const binding = "SCRAM-SHA-256-PLUS\x00"

// authentication returns what takes the place of a server's word on how to log
// in; nil = nothing. Channel binding cannot work through a gate that speaks TLS
// to the server: clients without TLS take the offer for an attack, and do not
// get it; those with TLS would, without the offer.
func (l *login) authentication(m relay.Message) []byte {
	if l.o.BackendTLS == nil || !m.Whole() || len(m.Bytes) < headerLen || !bytes.Contains(m.Bytes, []byte(binding)) {
		return nil
	}
	if !l.tls {
		return appendMessage(nil, msgAuthentication, bytes.Replace(m.Bytes[headerLen:], []byte(binding), nil, 1)...)
	}
	l.srv.once.binding.Do(func() {
		l.o.Log.Warn("the backend offers SCRAM with channel binding, which cannot work through TLS that ends in the gate: "+
			"clients need channel_binding=disable", slog.String("ingress", l.srv.name))
	})
	return nil
}
