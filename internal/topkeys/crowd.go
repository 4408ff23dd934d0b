package topkeys

import "sync"

// Crowd is who asks, by ingress. A server that replaces another counts on. The zero
// value is empty and ready; it is safe for concurrent use.
type Counter struct {
	mu     sync.Mutex // guards the field below
	boards map[string]*Board
}

// Of returns the board of an ingress.
func (c *Counter) Of(ingress string) *Board {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boards[ingress]
	if b == nil {
		if c.boards == nil {
			c.boards = map[string]*Board{}
		}
		b = &Board{}
		c.boards[ingress] = b
	}
	return b
}
