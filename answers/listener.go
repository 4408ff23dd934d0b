package answers

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Listener bounds the connections of a server. When there are as many as may be, a
// new one takes the place of the one that is idle longest, so that those who connect
// and do nothing keep nobody out; it waits while none is idle. Connections from which
// nothing has come yet are idle. It is safe for concurrent use.
type Listener struct {
	net.Listener

	most int

	mu     sync.Mutex          // guards the fields below
	open   map[*conn]time.Time // since when it is idle; zero = it is not
	room   *sync.Cond          // a connection was closed or became idle
	closed bool
}

// NewListener returns ln with at most so many connections. The server must tell it
// of their states; see [Listener.State].
func NewListener(ln net.Listener, most int) *Listener {
	l := &Listener{Listener: ln, most: most, open: map[*conn]time.Time{}}
	l.room = sync.NewCond(&l.mu)
	return l
}

// conn is one of the connections.
type conn struct {
	net.Conn

	l *Listener
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) >= l.most && !l.closed && !l.closeIdleLocked() {
		l.room.Wait()
	}
	if l.closed {
		_ = c.Close() // nobody serves it
		return nil, net.ErrClosed
	}
	own := &conn{c, l}
	l.open[own] = time.Now()
	return own, nil
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// State is for [http.Server.ConnState].
func (l *Listener) State(c net.Conn, state http.ConnState) {
	own := l.own(c)
	if own == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[own]; !ok {
		return // it is closed
	}
	switch state {
	case http.StateNew, http.StateIdle:
		l.open[own] = time.Now()
		l.room.Signal()
	default:
		l.open[own] = time.Time{}
	}
}

// own returns the connection that c stands for; nil = it is none of the listener's.
func (*Listener) own(c net.Conn) *conn {
	for {
		switch v := c.(type) {
		case *conn:
			return v
		case interface{ NetConn() net.Conn }: // of TLS, or of who bounds the callers
			c = v.NetConn()
		default:
			return nil
		}
	}
}

// CloseIdle closes the connection that is idle longest, and reports whether there was
// one.
func (l *Listener) CloseIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeIdleLocked()
}

// closeIdleLocked is CloseIdle.
func (l *Listener) closeIdleLocked() bool {
	var longest *conn
	var since time.Time
	for c, idle := range l.open {
		if !idle.IsZero() && (longest == nil || idle.Before(since)) {
			longest, since = c, idle
		}
	}
	if longest == nil {
		return false
	}
	delete(l.open, longest)
	_ = longest.Conn.Close() // its server notices
	return true
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.open, c)
	c.l.room.Signal()
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends what is sent, where the connection can do that.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}
