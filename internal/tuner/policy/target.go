package policy

import (
	"fmt"
	"math"
	"time"
)

// Gains of [Target], for a signal that grows in proportion to the setting. At
// these a move takes away half of the error, and never overshoots a signal that
// answers within one cooldown.
const (
	proportional = 0.3
	integral     = 0.5
	deadBand     = 0.03 // share of the target that is not worth a move
)

// Target keeps a signal at a value: a PI controller in its velocity form, on
// the logarithm of the setting. Its only memory is the setting itself and the
// error at the last move, so nothing winds up while a bound, another rule or a
// person keeps the setting where it is.
type Target struct {
	Target float64 // > 0
	Step   float64 // largest share of the value per move, in (0, 1)
	// Inverted is for signals that fall as the setting is raised.
	Inverted bool

	value, err, errAtMove float64
	moved                 bool
}

// Observe implements [Rule]; the only value is the signal.
func (t *Target) Observe(_ time.Time, values []float64) {
	t.value = values[0]
	t.err = finite((t.Target-t.value)/t.Target, 0)
	if t.Inverted {
		t.err = -t.err
	}
	t.err = min(max(t.err, -2), 2)
	if !t.moved {
		t.errAtMove = t.err // the first move has no trend to follow
	}
}

// Wish implements [Rule].
func (t *Target) Wish(s Setting) Wish {
	why := fmt.Sprintf("signal %.4g, target %.4g", t.value, t.Target)
	if math.Abs(t.err) < deadBand {
		return stay(s, why+", near enough")
	}
	delta := integral*t.err + proportional*(t.err-t.errAtMove)
	if delta*t.err <= 0 {
		return stay(s, why+", on its way by itself")
	}
	value := s.Value * math.Exp(min(max(delta, math.Log(1-t.Step)), math.Log(1+t.Step)))
	if delta > 0 {
		return raise(s, value, why)
	}
	return Wish{value, why}
}

// Moved implements [Rule].
func (t *Target) Moved(time.Time) { t.errAtMove, t.moved = t.err, true }
