package policy

import (
	"fmt"
	"time"
)

// Threshold lowers a setting step by step while a signal has been above a bound
// for some time, and brings it back to where it came from once the signal has
// been below another one for as long. In between nothing moves.
type Threshold struct {
	Above, Below float64
	For          time.Duration // 0 = at once
	Step         float64       // share of the value per move, in (0, 1)
	// Inverted is for signals that fall as load grows, such as free tickets:
	// the setting is lowered when the signal is below Below, and comes back
	// when it is above Above.
	Inverted bool

	value      float64
	now        time.Time
	over, calm time.Time // since when the signal says so; zero = it does not
}

// Observe implements [Rule]; the only value is the signal.
func (t *Threshold) Observe(now time.Time, values []float64) {
	t.value, t.now = values[0], now
	over, calm := t.value > t.Above, t.value < t.Below
	if t.Inverted {
		over, calm = calm, over
	}
	t.over, t.calm = since(t.over, over, now), since(t.calm, calm, now)
}

// since keeps the moment at which something began to hold.
func since(begin time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case begin.IsZero() || begin.After(now):
		return now
	}
	return begin
}

// Wish implements [Rule].
func (t *Threshold) Wish(s Setting) Wish {
	bad, good := fmt.Sprintf("above %v", t.Above), fmt.Sprintf("below %v", t.Below)
	if t.Inverted {
		bad, good = good, bad
	}
	switch {
	case t.lasted(t.over):
		return Wish{s.Value * (1 - t.Step), fmt.Sprintf("signal %.4g %s for %v", t.value, bad, t.For)}
	case t.lasted(t.calm) && s.Value < s.Base:
		return raise(s, min(s.Value*(1+t.Step), s.Base), fmt.Sprintf("signal %.4g %s for %v, back towards %.6g", t.value, good, t.For, s.Base))
	case !t.over.IsZero():
		return stay(s, fmt.Sprintf("signal %.4g %s for less than %v", t.value, bad, t.For))
	}
	return stay(s, fmt.Sprintf("signal %.4g asks for nothing", t.value))
}

func (t *Threshold) lasted(begin time.Time) bool {
	return !begin.IsZero() && t.now.Sub(begin) >= t.For
}

// Moved implements [Rule].
func (*Threshold) Moved(time.Time) {}
