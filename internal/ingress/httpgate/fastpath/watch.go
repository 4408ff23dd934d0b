package fastpath

import (
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/clientgone"
)

// watchAfter is how long a plain request is under way before its client is
// watched: most answers come sooner, and watching has its price.
const watchAfter = 5 * time.Millisecond

// watched is the context of a plain request: it is done when the client leaves. It
// is used by one request after another, of one connection at a time.
type clientContext struct {
	clientgone.Context
	d     *fastConn
	timer *time.Timer   // begins to watch
	over  chan struct{} // the watch has ended; holds one

	mu    sync.Mutex // guards the fields below
	armed bool       // the watch is to begin, or has begun
	ended bool       // the request: there is nothing to watch any more
}

// newWatched returns one that [watched.begin] can use.
func newClientContext() *clientContext {
	c := &clientContext{over: make(chan struct{}, 1)}
	c.timer = time.AfterFunc(time.Hour, c.watch)
	c.timer.Stop()
	c.Wanted = c.arm
	return c
}

// begin is the beginning of a request.
func (c *clientContext) begin(d *fastConn) {
	c.d, c.armed, c.ended = d, false, false // nobody else knows of it yet
}

// arm has the client watched before long, now that somebody wants to know: nobody
// does of a request that is refused.
func (c *clientContext) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed {
		c.armed = true
		c.timer.Reset(watchAfter)
	}
}

// end is the end of the request: afterwards nothing reads from the connection. It
// reports whether the client has left, after which c is of no more use.
func (c *clientContext) end() (gone bool) {
	c.mu.Lock()
	armed := c.armed
	c.mu.Unlock()
	if armed && !c.timer.Stop() {
		c.mu.Lock()
		c.ended = true
		_ = c.d.SetReadDeadline(time.Unix(1, 0)) // fails only when closed, which ends the watch too
		c.mu.Unlock()
		<-c.over
		c.d.touched = time.Time{}
	}
	c.d = nil
	return c.HasLeft()
}

// watch waits for the client's end, or that of the request.
func (c *clientContext) watch() {
	defer func() { c.over <- struct{}{} }()
	c.mu.Lock()
	ended := c.ended
	if !ended {
		_ = c.d.SetReadDeadline(time.Time{}) // as in end
	}
	c.mu.Unlock()
	if !ended && c.d.awaitEnd() {
		c.Leave()
	}
}
