package streams

import (
	"context"
	"slices"
	"sync"
	"time"
)

// departure is the context of a request: it is done when the client leaves.
type departure struct {
	mu    sync.Mutex    // guards the fields below
	done  chan struct{} // nil until somebody asks
	hung  bool          // the client has left
	after []*func()
	leave func()      // of the exchange; nil = none
	stop  func() bool // takes leave back; made once
}

var _ context.Context = (*departure)(nil)

// takeBack takes leave back, and reports whether it did.
func (c *departure) takeBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.leave != nil
	c.leave = nil
	return had
}

// isFresh reports whether nobody can know of it any more.
func (c *departure) isFresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done == nil && !c.hung && len(c.after) == 0 && c.leave == nil
}

// happen has what is to happen when the client has gone.
func (c *departure) happen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hung {
		return
	}
	c.hung = true
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

// OnLeave is [context.AfterFunc] for the one function of an exchange; it allocates
// nothing.
func (c *departure) OnLeave(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hung {
		go f()
		return c.stop
	}
	c.leave = f
	return c.stop
}

// AfterFunc is [context.AfterFunc], which calls it.
func (c *departure) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hung {
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

// Deadline implements [context.Context].
func (*departure) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements [context.Context].
func (*departure) Value(any) any { return nil }

// Done implements [context.Context].
func (c *departure) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.hung {
			close(c.done)
		}
	}
	return c.done
}

// Err implements [context.Context].
func (c *departure) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hung {
		return context.Canceled
	}
	return nil
}
