//go:build linux

package relay

// Asleep returns how many sides of sessions sleep.
func (c *Corridor) Asleep() int {
	c.sleepers.mu.Lock()
	defer c.sleepers.mu.Unlock()
	return len(c.sleepers.who)
}
