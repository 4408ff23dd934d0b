package policy

import (
	"fmt"
	"time"
)

// headroom is the share of an objective below which there is room for more.
const headroom = 0.8

// Objective keeps a latency below what was promised: it lowers the setting by a
// whole step when the latency is above the objective, and raises it by half a
// step when it is well below.
type Objective struct {
	Objective float64 // seconds, > 0
	Step      float64 // share of the value per move, in (0, 1)

	latency float64
}

// Observe implements [Rule]; the only value is the latency in seconds.
func (o *Objective) Observe(_ time.Time, values []float64) { o.latency = values[0] }

// Wish implements [Rule].
func (o *Objective) Wish(s Setting) Wish {
	why := fmt.Sprintf("latency %.4gs, objective %.4gs", o.latency, o.Objective)
	switch {
	case o.latency > o.Objective:
		return Wish{s.Value * (1 - o.Step), why}
	case o.latency < headroom*o.Objective:
		return raise(s, s.Value*(1+o.Step/2), why)
	}
	return stay(s, why)
}

// Moved implements [Rule].
func (*Objective) Moved(time.Time) {}
