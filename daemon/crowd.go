package daemon

import (
	"sync"

	"github.com/admitd/admitd/askers"
)

// crowd is who asks, by ingress. A front that replaces another counts on. The zero
// value is empty and ready; it is safe for concurrent use.
type crowd struct {
	mu     sync.Mutex // guards the field below
	boards map[string]*askers.Board
}

// of returns the board of an ingress.
func (c *crowd) of(ingress string) *askers.Board {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boards[ingress]
	if b == nil {
		if c.boards == nil {
			c.boards = map[string]*askers.Board{}
		}
		b = &askers.Board{}
		c.boards[ingress] = b
	}
	return b
}
