package descriptors

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// Share says what of an account a listener may take that is no gate's.
type Share struct {
	// Part bounds it to that part of what clients may have: 2 = half.
	Part int64
	// Spare lets it take a quarter of what is kept from clients beyond that.
	Spare bool
	// Yield closes a connection that nobody uses, when there is no descriptor for a new
	// one, and reports whether there was one; nil = there never is.
	Yield func() bool
	// Refused is told of each connection that was closed for want of a descriptor;
	// nil = nobody.
	Refused func()
}

// Listen returns a listener that accepts from ln while there are descriptors, and
// closes other connections at once.
func (a *Account) Listen(ln net.Listener, s Share) net.Listener {
	return &listener{Listener: ln, account: a, share: s}
}

// listener takes a share of an account.
type listener struct {
	net.Listener

	account      *Account
	share        Share
	taken, spare atomic.Int64
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		back := l.take(c)
		if back == nil && l.share.Yield != nil && l.share.Yield() {
			back = l.take(c)
		}
		if back != nil {
			return &conn{Conn: c, back: back}, nil
		}
		_ = c.Close() // nothing to be done: there is no room for it
		if l.share.Refused != nil {
			l.share.Refused()
		}
	}
}

// take takes a descriptor for c and returns what gives it back; nil = there is none.
func (l *listener) take(c net.Conn) (back func()) {
	usable, kept := l.account.shares()
	if within(&l.taken, usable/l.share.Part) {
		if l.account.Promise(c, 1) {
			return func() { l.taken.Add(-1); l.account.Release(1) }
		}
		l.taken.Add(-1)
	}
	if l.share.Spare && within(&l.spare, kept/4) {
		return func() { l.spare.Add(-1) }
	}
	return nil
}

// within counts one more, unless there are most already.
func within(n *atomic.Int64, most int64) bool {
	if n.Add(1) <= most {
		return true
	}
	n.Add(-1)
	return false
}

// conn gives its descriptor back when it is closed.
type conn struct {
	net.Conn

	back func()
	once sync.Once
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.back)
	return err
}

// CloseWrite sends the end of the stream and leaves reading open, where the
// connection can do that; otherwise it returns [errors.ErrUnsupported].
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
