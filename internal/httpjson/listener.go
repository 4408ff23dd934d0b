package httpjson

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// stallTimeout is how long a connection whose request waits for its client keeps its
// place when others want it: for the rest of the body, or for the client to read.
const stallTimeout = time.Second

// Listener bounds the connections of a server. When there are as many as may be, a
// new one takes the place of the one that is idle longest, so that those who connect
// and do nothing keep nobody out; it waits while none is idle. Connections from which
// no whole head has come yet are idle, and those that have kept their request waiting for
// a second. It is safe for concurrent use.
type Listener struct {
	net.Listener

	most int

	mu     sync.Mutex // guards the fields below, and those of the connections
	open   map[*conn]struct{}
	room   *sync.Cond // a connection was closed or became idle
	closed bool
}

// NewListener returns ln with at most so many connections, for a server that
// [Listener.Attach] is called with.
func NewListener(ln net.Listener, most int) *Listener {
	l := &Listener{Listener: ln, most: most, open: map[*conn]struct{}{}}
	l.room = sync.NewCond(&l.mu)
	return l
}

// conn is one of the connections.
type conn struct {
	net.Conn

	l       *Listener
	idle    time.Time    // since when nothing is asked; zero = something is
	asked   time.Time    // when a request began or was answered last
	working int          // requests that do not wait for their client
	writing atomic.Int64 // when the write that is under way began, Unix ns; 0 = none is
}

// since returns from when on the connection counts as idle; zero = it does not.
func (c *conn) since(now time.Time) time.Time {
	if !c.idle.IsZero() {
		return c.idle
	}
	if at := c.writing.Load(); at != 0 && now.Sub(time.Unix(0, at)) >= stallTimeout {
		return time.Unix(0, at)
	}
	if c.working == 0 && now.Sub(c.asked) >= stallTimeout {
		return c.asked
	}
	return time.Time{}
}

// work counts a request that waits for its client no more, or begins to (-1).
func (c *conn) work(n int) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.working += n
}

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// Attach has a server tell the listener what its connections do, before it serves. Bodies of
// requests of which streams reports true may take as long as they like; nil = of none.
func (l *Listener) Attach(srv *http.Server, streams func(*http.Request) bool) {
	srv.ConnState = l.state
	before := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		if own := l.own(c); own != nil {
			ctx = context.WithValue(ctx, connKey{}, own)
		}
		return ctx
	}
	handler := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			handler.ServeHTTP(w, r)
			return
		}
		own.turn(1)
		defer own.turn(-1)
		if r.Body != http.NoBody && (streams == nil || !streams(r)) {
			r.Body = &upload{r.Body, own}
		}
		handler.ServeHTTP(w, r)
	})
}

// turn counts a request that begins, or ends (-1).
func (c *conn) turn(n int) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.working += n
	c.asked = time.Now()
}

// upload is the body of a request. Who reads it waits for the client.
type upload struct {
	io.ReadCloser

	c *conn
}

// Read implements [io.Reader].
func (u *upload) Read(b []byte) (int, error) {
	u.c.work(-1)
	defer u.c.work(1)
	return u.ReadCloser.Read(b)
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
		stalled := time.AfterFunc(stallTimeout, l.room.Broadcast) // somebody may be by then
		l.room.Wait()
		stalled.Stop()
	}
	if l.closed {
		_ = c.Close() // nobody serves it
		return nil, net.ErrClosed
	}
	own := &conn{Conn: c, l: l, idle: time.Now()}
	l.open[own] = struct{}{}
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

// state is for [http.Server.ConnState].
func (l *Listener) state(c net.Conn, state http.ConnState) {
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
		own.idle = time.Now()
		l.room.Signal()
	default:
		own.idle, own.asked = time.Time{}, time.Now()
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
	now := time.Now()
	for c := range l.open {
		if idle := c.since(now); !idle.IsZero() && (longest == nil || idle.Before(since)) {
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

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.writing.Store(time.Now().UnixNano())
	defer c.writing.Store(0)
	return c.Conn.Write(b)
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
