package mongogate

import (
	"bytes"
	"strings"
)

// client is what a connection's first hello says of the client. It does not
// change afterwards.
type client struct {
	application  string
	driver       string
	generation   Generation
	loadBalanced bool
}

// maxName bounds what is kept of a name that a client chose, in bytes; servers
// accept no longer application name.
const maxName = 128

// readClient reads the announcements from a hello.
func readClient(body []byte) client {
	var c client
	var e element
	s := scan(body)
	for s.next(&e) {
		switch string(e.key) {
		case "client":
			if app, ok := lookupIn(e, "application"); ok {
				c.application = name(app)
			}
			if driver, ok := lookupIn(e, "driver"); ok {
				c.driver = name(driver)
			}
		case "backpressure":
			switch {
			case string(e.str()) == "2":
				c.generation = Hinted
			case e.truthy(), e.str() != nil:
				c.generation = Retrying
			}
		case "loadBalanced":
			c.loadBalanced = e.truthy()
		}
	}
	return c
}

// lookupIn returns the field of e's document.
func lookupIn(e element, key string) (element, bool) {
	if e.typ != typeDocument {
		return element{}, false
	}
	return lookup(e.value, key)
}

// name returns the document's field "name", cut to maxName.
func name(e element) string {
	n, _ := lookupIn(e, "name")
	s := n.str()
	return string(s[:min(len(s), maxName)])
}

// readUser returns who a handshake command, saslStart, authenticate or a hello
// with speculativeAuthenticate, wants to be: user@database, "" when it does
// not say.
func readUser(body, db []byte) string {
	if spec, ok := lookup(body, "speculativeAuthenticate"); ok && spec.typ == typeDocument {
		if d, ok := lookup(spec.value, "db"); ok {
			db = d.str()
		}
		body = spec.value
	}
	var user string
	if u, ok := lookup(body, "user"); ok {
		user = string(u.str())
	}
	if p, ok := lookup(body, "payload"); ok && p.typ == typeBinary {
		mechanism, _ := lookup(body, "mechanism")
		user = saslUser(string(mechanism.str()), p.value[5:])
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
	if spec, ok := lookup(reply, "speculativeAuthenticate"); ok {
		if spec.typ != typeDocument {
			return false
		}
		reply = spec.value
		if _, ok := lookup(reply, "conversationId"); !ok {
			return true // X.509 has no conversation
		}
	}
	if done, ok := lookup(reply, "done"); ok {
		return done.truthy()
	}
	_, hello := lookup(reply, "maxWireVersion")
	return !hello // authenticate answers ok alone
}

// replyOK reports whether the reply says ok: 1.
func replyOK(reply []byte) bool {
	ok, found := lookup(reply, "ok")
	return found && ok.truthy()
}
