package relay

// Change is something that has changed for who waits.
type Change struct{ c change }

// Tell notes a change.
func (c *Change) Tell() { c.c.tell() }

// Wait returns what tells of the next change; nil = there was one.
func (c *Change) Wait() <-chan struct{} { return c.c.wait() }

// Over ends a wait.
func (c *Change) Over(told bool) { c.c.over(told) }
