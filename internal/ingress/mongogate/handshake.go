package mongogate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/mongowire"
	"github.com/admitd/admitd/internal/topkeys"
)

// client is what a connection's first hello says of the client. It does not
// change afterwards.
type client struct {
	application  string
	driver       string
	generation   Generation
	loadBalanced bool
}

// peer is who is at the other end of a connection, as far as that is known. It
// belongs to the client's side; user and loggedIn are set by the backend's, while
// its reply is owed.
type peer struct {
	client
	remote   netip.Addr
	greeted  bool      // it said hello
	exempt   bool      // under these settings
	under    *settings // nil = it is not known
	claimed  string    // user of the SASL conversation that goes on
	user     string    // who authenticated; "" when nobody did, or nobody can tell who
	loggedIn bool
	last     topkeys.Operation // that a board was told of
}

// isExempt reports whether the client is exempt, by its address or the beginning of
// its application's or driver's name.
func (p *peer) isExempt(now *settings) bool {
	if p.under != now {
		p.under = now
		p.exempt = ingress.In(now.Exempt.Clients, p.remote) || slices.ContainsFunc(now.Exempt.Applications, func(begin string) bool {
			return strings.HasPrefix(p.application, begin) || strings.HasPrefix(p.driver, begin)
		})
	}
	return p.exempt
}

// maxName bounds what is kept of a name that a client chose, in bytes; servers
// accept no longer application name.
const maxName = 128

// readClient reads the announcements from a hello.
func readClient(body []byte) client {
	var c client
	var e mongowire.Element
	s := mongowire.Scan(body)
	for s.Next(&e) {
		switch string(e.Key) {
		case "client":
			if app, ok := mongowire.LookupIn(e, "application"); ok {
				c.application = name(app)
			}
			if driver, ok := mongowire.LookupIn(e, "driver"); ok {
				c.driver = name(driver)
			}
		case "backpressure":
			switch {
			case string(e.Text()) == "2":
				c.generation = Hinted
			case e.Truthy(), e.Text() != nil:
				c.generation = Retrying
			}
		case "loadBalanced":
			c.loadBalanced = e.Truthy()
		}
	}
	return c
}

// name returns the document's field "name", cut to maxName.
func name(e mongowire.Element) string {
	n, _ := mongowire.LookupIn(e, "name")
	s := n.Text()
	return string(s[:min(len(s), maxName)])
}

// readUser returns who a handshake command, saslStart, authenticate or a hello
// with speculativeAuthenticate, wants to be: user@database, "" when it does
// not say.
func readUser(body, db []byte) string {
	if spec, ok := mongowire.Lookup(body, "speculativeAuthenticate"); ok && spec.Type == mongowire.TypeDocument {
		if d, ok := mongowire.Lookup(spec.Value, "db"); ok {
			db = d.Text()
		}
		body = spec.Value
	}
	var user string
	if u, ok := mongowire.Lookup(body, "user"); ok {
		user = string(u.Text())
	}
	if p, ok := mongowire.Lookup(body, "payload"); ok && p.Type == mongowire.TypeBinary {
		mechanism, _ := mongowire.Lookup(body, "mechanism")
		user = saslUser(string(mechanism.Text()), p.Value[5:])
	}
	if user == "" {
		return ""
	}
	return user[:min(len(user), maxName)] + "@" + string(db[:min(len(db), maxName)])
}

// saslUser returns the user in the first message of a SASL conversation.
func saslUser(mechanism string, payload []byte) string {
	switch {
	case mechanism == "PLAIN": // authzid NUL authcid NUL password
		if parts := bytes.SplitN(payload, []byte{0}, 3); len(parts) == 3 {
			return string(parts[1])
		}
	case strings.HasPrefix(mechanism, "SCRAM-"): // n,,n=user,r=nonce
		_, rest, ok := bytes.Cut(payload, []byte(",,n="))
		if !ok {
			return ""
		}
		user, _, _ := bytes.Cut(rest, []byte{','})
		return strings.NewReplacer("=2C", ",", "=3D", "=").Replace(string(user))
	}
	return ""
}

// authenticated reports whether a reply ends a conversation well.
func authenticated(reply []byte) bool {
	if !replyOK(reply) {
		return false
	}
	if spec, ok := mongowire.Lookup(reply, "speculativeAuthenticate"); ok {
		if spec.Type != mongowire.TypeDocument {
			return false
		}
		reply = spec.Value
		if _, ok := mongowire.Lookup(reply, "conversationId"); !ok {
			return true // X.509 has no conversation
		}
	}
	if done, ok := mongowire.Lookup(reply, "done"); ok {
		return done.Truthy()
	}
	_, hello := mongowire.Lookup(reply, "maxWireVersion")
	return !hello // authenticate answers ok alone
}

// replyOK reports whether the reply says ok: 1.
func replyOK(reply []byte) bool {
	ok, found := mongowire.Lookup(reply, "ok")
	return found && ok.Truthy()
}

const (
	// unreachableMax bounds how long a hello waits for a backend that cannot be
	// reached: as long as drivers look for a server by default.
	unreachableMax = 30 * time.Second
	// redialEvery is how often a backend that cannot be reached is dialled for all
	// hellos that wait.
	redialEvery = 250 * time.Millisecond
)

// outage paces the attempts to reach a backend again. The zero value is a backend
// that is not known to be unreachable. It is safe for concurrent use.
type outage struct{ next atomic.Int64 } // monotonic ns of the next attempt; 0 = at once

// mayDial reports whether the caller is to dial now. During an outage one in
// redialEvery may.
func (o *outage) mayDial(now int64) bool {
	next := o.next.Load()
	return next == 0 || now >= next && o.next.CompareAndSwap(next, now+int64(redialEvery))
}

// ended notes that the backend was reached.
func (o *outage) ended() {
	if o.next.Load() != 0 {
		o.next.Store(0)
	}
}

// goesOn notes that the backend was not reached at now.
func (o *outage) goesOn(now int64) { o.next.Store(now + int64(redialEvery)) }

// reach connects to the backend for a hello. While it cannot be reached the hello
// waits, at most unreachableMax, as it would in front of an unreachable server: a
// driver takes a connection that is closed during the handshake for worse, and some
// fail their operations at once.
func (ses *session) reach(r *relay.Session) (wait bool, err error) {
	now, o := r.Now(), &ses.s.outage
	if r.Backend() == "" && !o.mayDial(now) {
		err = relay.ErrUnreachable
	} else if err = r.Connect(""); err == nil {
		o.ended()
		return false, nil
	} else {
		o.goesOn(r.Now())
	}
	switch {
	case !comesBack(err):
		return false, err
	case r.Draining():
		return false, relay.ErrDrained
	case ses.giveUp == 0:
		ses.giveUp = now + int64(unreachableMax)
	case now >= ses.giveUp:
		return false, err
	}
	time.AfterFunc(redialEvery, r.Wake)
	return true, nil
}

// comesBack reports whether waiting may help after a failed attempt to connect.
func comesBack(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return !untrusted && !ingress.LacksDescriptors(err)
}
