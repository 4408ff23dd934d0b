//go:build linux

package relay

import "net"

// Asleep returns how many sides of sessions sleep.
func (c *Relay) Asleep() int {
	c.sleepers.mu.Lock()
	defer c.sleepers.mu.Unlock()
	return len(c.sleepers.who)
}

// Looks returns one more than how often the watch has looked.
func (c *Relay) Looks() uint64 { return c.watch.looks.Load() }

// WakeLate does what the watch does with an event for a sleep before the one that
// each side sleeps.
func (c *Relay) WakeLate() {
	c.sleepers.mu.Lock()
	late := map[uint64]*side{}
	for name, who := range c.sleepers.who {
		late[name-1] = who
	}
	c.sleepers.mu.Unlock()
	for name, who := range late {
		who.wakeFrom(name)
	}
}

// Change is something that has changed for who waits.
type Change struct{ c broadcast }

// Tell notes a change.
func (c *Change) Tell() { c.c.wake() }

// Wait returns what tells of the next change; nil = there was one.
func (c *Change) Wait() <-chan struct{} { return c.c.wait() }

// Over ends a wait.
func (c *Change) Over(told bool) { c.c.over(told) }

// Write writes to a connection as a session does, and returns how much it wrote.
func Write(c net.Conn, b []byte) (n int, err error) {
	var o connWriter
	o.begin(c, rawOf(c))
	return o.write(b)
}
