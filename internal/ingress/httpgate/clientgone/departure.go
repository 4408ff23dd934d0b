// Package clientgone is how a request learns that its client has left: a
// [context.Context] that allocates next to nothing, and may be used for one request
// after another. What it does not know is how a client is seen to leave: a
// connection of HTTP/1.1 has to be watched, a stream of HTTP/2 is reset.
package clientgone

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Context is the context of a request: it is done when the client leaves. The zero
// value is ready. It is safe for concurrent use and must not be copied.
type Context struct {
	// Wanted, if there is one, is called whenever somebody begins to wait for the
	// departure, with a lock held that all methods take. It is set before first use.
	Wanted func()

	mu    sync.Mutex    // guards the fields below
	done  chan struct{} // nil until somebody asks
	left  bool
	after []*func()
	leave func()      // of the exchange; nil = none
	stop  func() bool // takes leave back; nil until somebody asks
}

var _ context.Context = (*Context)(nil)

// Leave says that the client has left. Only the first call counts.
func (c *Context) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	c.left = true
	if c.done != nil {
		close(c.done)
	}
	if c.leave != nil {
		go c.leave()
	}
	for _, f := range c.after {
		go (*f)()
	}
	c.leave, c.after = nil, nil
}

// HasLeft reports whether the client has left, after which c is of no use to
// another request.
func (c *Context) HasLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// IsUnknown reports whether nobody can know of c any more: no one has asked for its
// channel, waits for the departure, or was told of it.
func (c *Context) IsUnknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done == nil && !c.left && len(c.after) == 0 && c.leave == nil
}

// OnLeave is [context.AfterFunc] for the one function of an exchange; it allocates
// nothing after its first use.
func (c *Context) OnLeave(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wantLocked()
	if c.stop == nil {
		c.stop = c.takeBack
	}
	if c.left {
		go f()
		return c.stop
	}
	c.leave = f
	return c.stop
}

// takeBack takes back what OnLeave was given, and reports whether it did.
func (c *Context) takeBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.leave != nil
	c.leave = nil
	return had
}

// wantLocked tells that somebody waits for the departure.
func (c *Context) wantLocked() {
	if c.Wanted != nil {
		c.Wanted()
	}
}

// AfterFunc is [context.AfterFunc], which calls it.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wantLocked()
	if c.left {
		go f()
		return func() bool { return false }
	}
	c.after = append(c.after, &f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.after, &f)
		if i < 0 {
			return false
		}
		c.after = slices.Delete(c.after, i, i+1)
		return true
	}
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wantLocked()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.left {
			close(c.done)
		}
	}
	return c.done
}

// Err implements [context.Context].
func (c *Context) Err() error {
	if c.HasLeft() {
		return context.Canceled
	}
	return nil
}

// Deadline implements [context.Context]: there is none.
func (*Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements [context.Context]: there is none.
func (*Context) Value(any) any { return nil }
