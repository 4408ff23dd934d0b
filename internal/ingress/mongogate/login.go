package mongogate

import (
	"log/slog"
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// Unauthenticated says whether operations cost tokens on connections on which
// nobody has logged in yet.
type Unauthenticated uint8

// The treatments.
const (
	// UnauthenticatedAuto does as servers do: they pass where the backend asks for
	// credentials, which is known once it has refused one of them for want of a
	// login, and cost tokens everywhere else.
	UnauthenticatedAuto Unauthenticated = iota
	// UnauthenticatedGate makes them cost what others cost.
	UnauthenticatedGate
	// UnauthenticatedPass makes them cost no token. They need a permit.
	UnauthenticatedPass
)

// String returns the treatment as the configuration spells it.
func (u Unauthenticated) String() string { return [...]string{"auto", "gate", "pass"}[u] }

// ParseUnauthenticated reads a treatment as the configuration spells it.
func ParseUnauthenticated(s string) (u Unauthenticated, ok bool) {
	for u = range UnauthenticatedPass + 1 {
		if s == u.String() {
			return u, true
		}
	}
	return UnauthenticatedAuto, false
}

// codeUnauthorized is the error of a backend that wants a login, or another one.
const codeUnauthorized = 13

// credentials is what is known of the backend's wish for a login. It is safe for
// concurrent use.
type credentials struct {
	refused atomic.Bool // the backend refused an operation for want of a login
	worked  atomic.Bool // it carried one out all the same: for good, since pretending is cheap
}

// pass reports whether operations before a login cost no token.
func (c *credentials) pass(policy Unauthenticated) bool {
	switch policy {
	case UnauthenticatedGate:
		return false
	case UnauthenticatedPass:
		return true
	default:
		return c.refused.Load() && !c.worked.Load()
	}
}

// inForce is pass in the configuration's words.
func (c *credentials) inForce(policy Unauthenticated) string {
	if c.pass(policy) {
		return UnauthenticatedPass.String()
	}
	return UnauthenticatedGate.String()
}

// saw learns from the reply to an operation before a login. Only reads and writes
// tell that none is needed: every server answers a ping.
func (c *credentials) saw(re *reply, data bool, now *settings) {
	switch {
	case re.unauthorized:
		if !c.refused.Load() {
			c.refused.Store(true)
		}
	case data && !re.failed && !c.worked.Load() && c.worked.CompareAndSwap(false, true):
		if now.Unauthenticated == UnauthenticatedPass {
			now.Log.Warn("clients need not log in at this backend, and what they do without costs no token",
				slog.String("key", "requests.unauthenticated"))
		}
	}
}

// passLogin passes a command that may log in or out.
func (ses *session) passLogin(k command) relay.Verdict {
	f, a := &ses.f, &ses.asked
	a.kind, a.login, a.user = kindAuth, k.class == classAuth, readUser(f.body, f.db)
	switch string(f.name) {
	case "saslContinue": // goes on with what saslStart said
		a.user = ses.who.claimed
	case "logout":
		a.kind = kindLogout
	}
	ses.who.claimed = a.user
	return relay.Verdict{Expect: !f.noReply}
}

// loginEnded notes how a conversation ended that may have been a login.
func (p *peer) loginEnded(a *pendingRequest, body []byte) {
	switch {
	case a.kind == kindLogout:
		if replyOK(body) {
			p.user, p.loggedIn = "", false
		}
	case a.login && authenticated(body):
		p.loggedIn = true
		if a.user != "" {
			p.user = a.user
		}
	}
}
