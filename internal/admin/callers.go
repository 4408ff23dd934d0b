package admin

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/labels"
)

// callers counts the connections that use the decision API. They may wait for
// minutes, and must not keep probes and operators out.
type callers struct {
	most int64
	now  atomic.Int64
}

// callerListener accepts connections that know whether a caller has them.
type callerListener struct {
	net.Listener

	callers *callers
}

// Accept implements [net.Listener].
func (l *callerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, callers: l.callers}, nil
}

// connection is one of the port's connections.
type connection struct {
	net.Conn

	callers *callers
	state   atomic.Uint32 // free, taken or closed
}

// The states of a connection.
const (
	free uint32 = iota
	taken
	closed
)

// take makes the connection a caller's, if there may be another one. It is one
// until it is closed.
func (c *connection) take() bool {
	if c.state.Load() == taken {
		return true
	}
	if c.callers.now.Add(1) > c.callers.most || !c.state.CompareAndSwap(free, taken) {
		c.callers.now.Add(-1)
		return false
	}
	return true
}

// NetConn returns what c stands for, for who bounds the connections.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Close implements [net.Conn].
func (c *connection) Close() error {
	if c.state.Swap(closed) == taken {
		c.callers.now.Add(-1)
	}
	return c.Conn.Close()
}

// connectionKey finds the connection of a request.
type connectionKey struct{}

// withConnection lets requests find their connection.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// boundCallers refuses callers of the decision API on more connections than may
// be theirs, and closes those.
func (g *guard) boundCallers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && !c.take() {
			w.Header().Set("Connection", "close")
			document := labels.New(labels.ConcurrencyLimit, "", "")
			document.Detail = "The decision API has as many callers as it may"
			document.RetryAfterMS = time.Second.Milliseconds()
			httpjson.Refuse(w, &document, labels.HTTPForm{})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// moved says that the decision API has a listener of its own; this place answers
// for one release more.
func moved(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Deprecation", deprecated)
		w.Header().Set("Link", `<https://github.com/admitd/admitd/blob/main/docs/decide.md>; rel="deprecation"`)
		next.ServeHTTP(w, r)
	})
}

// deprecated is since when the decision API is elsewhere (RFC 9745): the second
// of 2026-11-22.
const deprecated = "@1795305600"
