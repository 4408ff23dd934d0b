package postgresgate

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
)

// Codes with which a client does not come in. libpq and pgx try the next host of
// their list on the second one.
const (
	stateTooMany   = "53300"
	stateElsewhere = "57P03"
)

// appendTurnedAway appends the answer to a client that does not come in.
func appendTurnedAway(dst []byte, name string, why ingress.Refusal) []byte {
	f := errorFields{severity: "FATAL", code: stateTooMany, hint: "wait before connecting again"}
	switch why {
	case ingress.OverRate:
		f.message = fmt.Sprintf("ingress %s takes no more connections at this rate", name)
	case ingress.Draining:
		f.code, f.message, f.hint = stateElsewhere, fmt.Sprintf("ingress %s is draining", name), "try another host"
	default:
		f.message = fmt.Sprintf("ingress %s has too many connections", name)
	}
	return appendError(dst, f)
}

// appendShutdown appends what an idle client is told when the gate drains.
func appendShutdown(dst []byte, name string) []byte {
	return appendError(dst, errorFields{severity: "FATAL", code: "57P01", message: "terminating connection: ingress " + name + " is draining", hint: "connect again"})
}

// TurnAway implements [ingress.Usher]: PostgreSQL clients speak first, and are
// told why when they have. Requests to cancel are served.
func (s *Server) TurnAway(c net.Conn, why ingress.Refusal) {
	for range 3 { // a wish for GSS, one for TLS, the message itself
		m, secured, err := s.firstMessage(c)
		switch c = secured; {
		case err != nil:
			return
		case startupCode(m) == codeTLS || startupCode(m) == codeGSS:
			if c, err = s.encrypt(c, startupCode(m) == codeTLS); err != nil {
				return
			}
		case startupCode(m) == codeCancel:
			s.cancelElsewhere(m[8:])
			return
		default:
			_, _ = c.Write(appendTurnedAway(nil, s.name, why))
			return
		}
	}
}

// firstMessage reads a message before the login, and begins TLS with a client
// that does so by itself.
func (s *Server) firstMessage(c net.Conn) (m []byte, secured net.Conn, err error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return nil, c, err
	}
	if o := s.current.Load(); head[0] == recordHandshake && o.direct != nil {
		c = tls.Server(ingress.PushBack(c, head[0]), o.direct)
		if _, err := io.ReadFull(c, head[:1]); err != nil {
			return nil, c, err
		}
	}
	if _, err := io.ReadFull(c, head[1:]); err != nil {
		return nil, c, err
	}
	n, err := startupSize(head[:])
	if err != nil {
		return nil, c, err
	}
	m = append(head[:], make([]byte, n-len(head))...)
	_, err = io.ReadFull(c, m[len(head):])
	return m, c, err
}

// encrypt answers a wish for encryption.
func (s *Server) encrypt(c net.Conn, withTLS bool) (net.Conn, error) {
	o := s.current.Load()
	if !withTLS || o.TLS == nil {
		_, err := c.Write([]byte{'N'})
		return c, err
	}
	if _, err := c.Write([]byte{'S'}); err != nil {
		return c, err
	}
	return tls.Server(c, o.TLS), nil
}

// cancelElsewhere cancels what the session with the key is at. An unknown key is
// of a session that has ended, or of one at another gate.
func (s *Server) cancelElsewhere(key []byte) {
	other := s.keys.find(key)
	if other == nil || other.rs.Interrupt() {
		return
	}
	other.sendCancel(key)
}

// Cancel implements [relay.Canceler]: a server does not notice in the middle of
// a statement that its client has gone.
func (s *session) Cancel(*relay.Session) {
	if key := s.srv.keys.of(s); key != "" {
		s.sendCancel([]byte(key))
	}
}

// cancelTimeout bounds a request to cancel, which the server answers by closing.
const cancelTimeout = time.Second

// sendCancel asks the session's backend to cancel, and waits until it has read that.
func (s *session) sendCancel(key []byte) {
	ctx, stop := context.WithTimeout(context.Background(), cancelTimeout) //nolint:forbidigo // detached: whoever asks has gone
	defer stop()
	c, _, err := s.o.dialer.Dial(ctx, s.rs.Backend())
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(cancelTimeout))
	m := binary.BigEndian.AppendUint32(nil, uint32(8+len(key)))
	m = append(binary.BigEndian.AppendUint32(m, codeCancel), key...)
	if _, err := c.Write(m); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1))
	}
}

// maxUsers bounds the users of whom it is known whether they are superusers.
const maxUsers = 10_000

// users remembers who logged in as a superuser, and who as an ordinary user.
// Safe for concurrent use.
type users struct {
	mu sync.Mutex // guards m
	m  map[string]bool
}

// learn notes what the server said of a user.
func (u *users) learn(name string, super bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.m == nil {
		u.m = map[string]bool{}
	}
	if _, known := u.m[name]; known || len(u.m) < maxUsers {
		u.m[name] = super
	}
}

// isOrdinary reports whether the user is known to be no superuser.
func (u *users) isOrdinary(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	super, known := u.m[name]
	return known && !super
}
