package lab

import (
	"time"

	"github.com/admitd/admitd/limiter"
)

// waiter plays the wait that [limiter.Gate.Admit] does with timers.
type waiter struct {
	d      *gateDoor
	ticket *limiter.Ticket
	cost   float64
	e      Entrant
	over   bool
}

// begin looks at the ticket now, and when it says.
func (t *waiter) begin() {
	// The ticket tells under the gate's lock, so what comes of it is played next.
	t.ticket.Notify(func() { t.d.w.After(0, t.step) })
	t.step()
}

// withdraw ends the wait because the caller has left.
func (t *waiter) withdraw() {
	t.over = true
	t.ticket.Abandon()
}

// step does what is due, and plans the next step when that does not end the
// wait.
func (t *waiter) step() {
	if t.over {
		return
	}
	now := t.d.gate.Now()
	permit, next, done, err := t.ticket.Step(now)
	switch {
	case !done:
		t.d.w.After(time.Duration(next-now), t.step)
		return
	case err != nil:
		t.e.Refused(refusal(err, t.cost))
	default:
		t.e.Admitted(&permit)
	}
	t.over = true
}
