package lab

import (
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Contender is something that may stand before a backend.
type Contender struct {
	// Name in reports.
	Name string
	// New makes a fresh one for one run.
	New func(w *World) Door
}

// Door is what requests go through. All calls come from the goroutine that
// plays the world.
type Door interface {
	// Enter asks for admission. Exactly one of the entrant's methods is called:
	// now, and then withdraw is nil, or at a later virtual time. withdraw takes
	// the request out of the door's queue, since its caller has left; nothing is
	// called then.
	Enter(r Request, e Entrant) (withdraw func())
	// Limit returns the present limit for reports; 0 = it has none.
	Limit() int
}

// Entrant is who asks for admission.
type Entrant interface {
	// Admitted hands over a permit, whose End must be called.
	Admitted(p Permit)
	// Refused ends the request.
	Refused(why Refusal)
}

// Permit is held by an admitted request. [limiter.Permit] is one.
type Permit interface {
	// End returns the permit. It is called once.
	End(o limiter.Outcome)
}

// Leaver is a [Permit] that stays held when the caller leaves and the backend
// goes on working, as those of our gates do. Other permits are ended as Ignored
// at that moment, as proxies do that use the libraries they come from.
type Leaver interface {
	Permit
	Leave()
}

// EndFunc is a [Permit] that is a function.
type EndFunc func(o limiter.Outcome)

// End implements [Permit].
func (f EndFunc) End(o limiter.Outcome) { f(o) }

// Refusal computes what a refused client is told; nil = nothing. It is called
// at most once, at the moment of the refusal.
type Refusal func() labels.Document

// Request is what a door is asked.
type Request struct {
	Key      string
	Class    labels.Class
	Cost     float64
	Patience time.Duration // until the client gives up, where it says so; 0 = it does not
}

// open is the door of the contender "none".
type noGate struct{}

// Enter implements [Door].
func (noGate) Enter(_ Request, e Entrant) func() {
	e.Admitted(EndFunc(func(limiter.Outcome) {}))
	return nil
}

// Limit implements [Door].
func (noGate) Limit() int { return 0 }

// None is the contender without a gate.
func None() Contender {
	return Contender{Name: "none", New: func(*World) Door { return noGate{} }}
}

// Gated returns a contender that is a real gate. policy is called once per
// gate and reload, for the world of one run: it must return what is equal for
// worlds that are equal.
func Gated(name string, policy func(w *World) *limiter.Policy) Contender {
	return Contender{Name: name, New: func(w *World) Door {
		return newGateDoor(w, func() *limiter.Policy { return policy(w) })
	}}
}

// gateDoor is a real [limiter.Gate] in virtual time.
type gateDoor struct {
	w      *World
	gate   *limiter.Gate
	policy func() *limiter.Policy

	limit   int   // when it was last asked for
	limitAt int64 // virtual ns until which it is not asked for again
}

func newGateDoor(w *World, policy func() *limiter.Policy) *gateDoor {
	return &gateDoor{
		w: w, policy: policy,
		gate: limiter.New("lab", policy(), limiter.Options{Clock: w.gateClock(), Rand: w.Rand, Tracer: w.tracer}),
	}
}

// Enter implements [Door].
func (d *gateDoor) Enter(r Request, e Entrant) (withdraw func()) {
	req := limiter.Request{Key: r.Key, Class: r.Class, Cost: r.Cost, MaxWait: r.Patience}
	permit, ticket, err := d.gate.Offer(d.gate.Now(), req)
	switch {
	case err != nil:
		e.Refused(refusal(err, r.Cost))
		return nil
	case ticket == nil:
		e.Admitted(&permit)
		return nil
	default:
		wait := &waiter{d: d, ticket: ticket, cost: r.Cost, e: e}
		wait.begin()
		return wait.withdraw
	}
}

// refusal returns the wire form of a refusal.
func refusal(err error, cost float64) Refusal {
	return func() labels.Document {
		rej, ok := err.(*limiter.Rejection) //nolint:errorlint // Offer returns nothing else
		if !ok {
			return labels.Document{}
		}
		return rej.Document(limiter.Request{Cost: cost}, true)
	}
}

// Limit implements [Door]: the sum over the partitions in use. With many of
// them it is looked up less often, since that is what takes the time then.
func (d *gateDoor) Limit() int {
	if d.w.now < d.limitAt {
		return d.limit
	}
	d.limit = 0
	partitions := d.gate.Status().Partitions
	for i := range partitions {
		if partitions[i].Counts.Admitted > 0 {
			d.limit += partitions[i].Limit
		}
	}
	d.limitAt = d.w.now + int64(len(partitions)/4)*int64(watchEvery)
	return d.limit
}

// Status returns the gate's own view.
func (d *gateDoor) Status() limiter.Status { return d.gate.Status() }

// Reload applies the policy again, as a reload of the configuration does.
func (d *gateDoor) Reload() { d.gate.Apply(d.policy()) }

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
