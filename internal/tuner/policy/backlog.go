package policy

import (
	"fmt"
	"time"
)

// Backlog throttles what comes in so that what waits to be drained stays
// bounded: rate = clamp(acceptable / backlog × drain, minimum, limit). It jumps
// to the value of the formula, which is its own bound per move.
type Backlog struct {
	Acceptable     float64       // records that may wait, > 0
	Minimum, Limit float64       // bounds of the rate, 0 < Minimum ≤ Limit
	RampUp         time.Duration // time in which the limit grows from Minimum after the start; 0 = at once

	backlog, drain float64
	begin, now     time.Time
}

// Observe implements [Rule]; the values are the backlog and the rate at which
// it is drained.
func (b *Backlog) Observe(now time.Time, values []float64) {
	b.backlog, b.drain, b.now = max(values[0], 0), max(values[1], 0), now
	if b.begin.IsZero() {
		b.begin = now
	}
}

// Wish implements [Rule].
func (b *Backlog) Wish(Setting) Wish {
	limit, ramp := b.limit()
	why := fmt.Sprintf("backlog %.6g of %.6g acceptable, drained at %.4g/s%s", b.backlog, b.Acceptable, b.drain, ramp)
	if b.backlog == 0 || b.drain == 0 && b.backlog <= b.Acceptable {
		return Wish{limit, why} // nothing waits, or little does and nothing tells how fast it could go
	}
	rate := finite(b.Acceptable/b.backlog*b.drain, limit)
	return Wish{max(min(rate, limit), min(b.Minimum, limit)), why}
}

// limit is the static limit at this moment of the ramp.
func (b *Backlog) limit() (float64, string) {
	gone := b.now.Sub(b.begin)
	if b.RampUp <= 0 || gone >= b.RampUp {
		return b.Limit, ""
	}
	limit := b.Minimum + (b.Limit-b.Minimum)*max(gone.Seconds(), 0)/b.RampUp.Seconds()
	return limit, fmt.Sprintf(", limit ramps up and stands at %.4g", limit)
}

// Moved implements [Rule].
func (*Backlog) Moved(time.Time) {}
