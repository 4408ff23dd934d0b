package knee

import "math"

// contrast is what calm and busy samples of the last windows were like.
type contrast struct {
	calm, calmHeld, calmLatency float64
	busy, busyHeld, busyLatency float64
}

// add weighs in a window, and forgets the older ones over about 2000 samples.
func (c *contrast) add(w *window) {
	keep := math.Exp(-w.count() / 2000)
	c.calm = keep*c.calm + float64(w.calm)
	c.calmHeld = keep*c.calmHeld + w.calmHeld
	c.calmLatency = keep*c.calmLatency + w.calmLatency
	c.busy = keep*c.busy + float64(w.busy)
	c.busyHeld = keep*c.busyHeld + w.held - w.calmHeld
	c.busyLatency = keep*c.busyLatency + w.latency - w.calmLatency
}

// elasticity is how latency follows what is in flight: 1 where it is in
// proportion, as behind a queue, 0 where it does not care. Its error is about
// that of the means over the contrast; ok is false where that is too much.
func (c *contrast) elasticity() (e float64, ok bool) {
	if c.calm < 12 || c.busy < 12 {
		return 0, false
	}
	few, many := c.calmHeld/c.calm, c.busyHeld/c.busy
	spread := 2 * (many - few) / (many + few)
	if noise := math.Sqrt(1/c.calm + 1/c.busy); spread < 2.5*noise {
		return 0, false
	}
	fast, slow := c.calmLatency/c.calm, c.busyLatency/c.busy
	return 2 * (slow - fast) / (slow + fast) / spread, true
}
