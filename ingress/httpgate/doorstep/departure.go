package doorstep

import (
	"context"
	"sync"
	"time"
)

// watchAfter is how long a plain request is under way before its client is
// watched: most answers come sooner, and watching has its price.
const watchAfter = 5 * time.Millisecond

// departure is the context of a plain request: it is done when the client leaves.
// It is used by one request after another, of one connection at a time.
type departure struct {
	d     *doorstep
	timer *time.Timer   // begins to watch
	over  chan struct{} // the watch has ended; holds one

	mu    sync.Mutex // guards the fields below
	armed bool       // the watch is to begin, or has begun
	ended bool       // the request: there is nothing to watch any more
	done  chan struct{}
	gone  bool // done is closed
	after []*func()
	leave func()      // of the exchange; nil = none
	stop  func() bool // takes leave back; made once
}

var _ context.Context = (*departure)(nil)

// newDeparture returns one that [departure.begin] can use.
func newDeparture() *departure {
	c := &departure{over: make(chan struct{}, 1), done: make(chan struct{})}
	c.timer = time.AfterFunc(time.Hour, c.watch)
	c.timer.Stop()
	c.stop = func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		had := c.leave != nil
		c.leave = nil
		return had
	}
	return c
}

// begin is the beginning of a request.
func (c *departure) begin(d *doorstep) {
	c.d, c.armed, c.ended = d, false, false // nobody else knows of it yet
}

// armLocked has the client watched before long, now that somebody wants to know:
// nobody does of a request that is refused.
func (c *departure) armLocked() {
	if !c.armed {
		c.armed = true
		c.timer.Reset(watchAfter)
	}
}

// end is the end of the request: afterwards nothing reads from the connection. It
// reports whether the client has left, after which c is of no more use.
func (c *departure) end() (gone bool) {
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
	return c.gone
}

// watch waits for the client's end, or that of the request.
func (c *departure) watch() {
	defer func() { c.over <- struct{}{} }()
	c.mu.Lock()
	ended := c.ended
	if !ended {
		_ = c.d.SetReadDeadline(time.Time{}) // as in end
	}
	c.mu.Unlock()
	if !ended && c.d.awaitEnd() {
		c.happen()
	}
}

// OnLeave is [context.AfterFunc] for the one function of an exchange; it
// allocates nothing.
func (c *departure) OnLeave(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armLocked()
	if c.gone {
		go f()
		return c.stop
	}
	c.leave = f
	return c.stop
}

// happen has what is to happen when the client has gone.
func (c *departure) happen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	close(c.done)
	if c.leave != nil {
		go c.leave()
	}
	for _, f := range c.after {
		go (*f)()
	}
	c.leave, c.after = nil, nil
}

// Deadline implements [context.Context].
func (*departure) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements [context.Context].
func (*departure) Value(any) any { return nil }

// Done implements [context.Context].
func (c *departure) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armLocked()
	return c.done
}

// Err implements [context.Context].
func (c *departure) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return context.Canceled
	}
	return nil
}

// AfterFunc is [context.AfterFunc], which calls it.
func (c *departure) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armLocked()
	if c.gone {
		go f()
		return func() bool { return false }
	}
	c.after = append(c.after, &f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, g := range c.after {
			if g == &f {
				c.after = append(c.after[:i], c.after[i+1:]...)
				return true
			}
		}
		return false
	}
}
