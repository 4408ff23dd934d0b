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

// begin plans the end of the wait.
func (t *waiter) begin() {
	// The ticket tells under the gate's lock, so what comes of it is played next.
	t.ticket.Notify(func() { t.d.w.After(0, func() { t.granted() }) })
	t.plan()
}

// withdraw ends the wait because the caller has left.
func (t *waiter) withdraw() {
	t.over = true
	t.ticket.Abandon()
}

// granted hands over the permit, if there is one by now.
func (t *waiter) granted() bool {
	if t.over {
		return true
	}
	select {
	case <-t.ticket.Ready():
		t.admit(t.ticket.Permit())
	default:
	}
	return t.over
}

// admit ends the wait with a permit.
func (t *waiter) admit(p limiter.Permit) {
	t.over = true
	t.e.Admitted(&p)
}

// refuse ends the wait without one.
func (t *waiter) refuse(err error) {
	t.over = true
	t.e.Refused(refusal(err, t.cost))
}

// plan looks at the ticket when it wants to be looked at.
func (t *waiter) plan() {
	at, indebted := t.ticket.Due()
	t.d.w.After(time.Duration(at-t.d.gate.Now()), func() { t.due(indebted) })
}

// due is the end of a debt or of the wait.
func (t *waiter) due(indebted bool) {
	if t.granted() {
		return
	}
	if !indebted {
		if permit, err := t.ticket.Expire(); err == nil {
			t.admit(permit)
		} else {
			t.refuse(err)
		}
		return
	}
	permit, queued, err := t.ticket.Resume(t.d.gate.Now())
	switch {
	case err != nil:
		t.refuse(err)
	case !queued:
		t.admit(permit)
	default:
		t.plan()
	}
}
