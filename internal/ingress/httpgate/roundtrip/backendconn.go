package roundtrip

import (
	"context"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
)

// link is the connection to the backend that an exchange has, and how much of the
// request has gone over it. It is bounded by the caller's deadline too, and is
// interrupted when the caller leaves.
type backendConn struct {
	caller *caller
	bc     *upstream.Conn // nil = there is none
	stop   func() bool    // takes back what happens to bc when the caller leaves
	up     *upload        // nil unless the body streams
	wrote  int            // bytes of the request that bc took
	sent   bool           // all of the request, unless the body streams
}

// leaving is the context of a plain request: what [context.AfterFunc] does, without
// allocating, for one function at a time.
type clientContext interface {
	OnLeave(f func()) (stop func() bool)
}

// connect takes a connection to the backend: an idle one, unless it has to be
// fresh.
func (l *backendConn) connect(pool *upstream.Pool, fresh bool) (err error) {
	ctx := l.caller.ctx
	l.wrote, l.sent = 0, false
	if fresh {
		l.bc, err = pool.Dial(ctx)
	} else {
		l.bc, err = pool.Get(ctx)
	}
	if err != nil {
		return err
	}
	if plain, ok := ctx.(clientContext); ok {
		l.stop = plain.OnLeave(l.bc.Leave)
	} else {
		l.stop = context.AfterFunc(ctx, l.bc.Leave)
	}
	return nil
}

// arm bounds the next reads and writes on the connection, by the caller's deadline
// too; d = 0 leaves only that.
func (l *backendConn) arm(d time.Duration) {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if own := l.caller.deadline; !own.IsZero() && (until.IsZero() || own.Before(until)) {
		until = own
	}
	_ = l.bc.SetDeadline(until) // fails only when closed, which the next read tells
	if l.caller.hasLeft() {     // before, and what that did was overwritten
		_ = l.bc.SetReadDeadline(time.Unix(1, 0))
	}
}

// isWhole reports whether the backend has all of the request.
func (l *backendConn) isWhole() bool {
	return l.bc != nil && (l.sent || l.up != nil && l.up.complete.Load())
}

// hasBegun reports whether the backend may be working on the request, of which it
// has at least a part.
func (l *backendConn) hasBegun() bool { return l.bc != nil && l.wrote > 0 }

// hangUp closes the connection and waits for the upload to notice.
func (l *backendConn) hangUp() {
	if l.bc == nil {
		return
	}
	l.stop()
	_ = l.bc.Close()
	if l.up != nil {
		l.up.end()
	}
	l.bc = nil
}
