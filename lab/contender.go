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
	// Enter asks for admission. Exactly one of the callbacks is called, now or
	// at a later virtual time.
	Enter(r Request, admitted func(End), refused func(Refusal))
	// Limit returns the present limit for reports; 0 = it has none.
	Limit() int
}

// End ends an admitted request. It is called once.
type End func(o limiter.Outcome)

// Refusal computes what a refused client is told; nil = nothing. It is called
// at most once, at the moment of the refusal.
type Refusal func() labels.Document

// Request is what a door is asked.
type Request struct {
	Key      string
	Cost     float64
	Patience time.Duration // until the client gives up; 0 = forever
}

// open is the door of the contender "none".
type open struct{}

// Enter implements [Door].
func (open) Enter(_ Request, admitted func(End), _ func(Refusal)) {
	admitted(func(limiter.Outcome) {})
}

// Limit implements [Door].
func (open) Limit() int { return 0 }

// None is the contender without a gate.
func None() Contender {
	return Contender{Name: "none", New: func(*World) Door { return open{} }}
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
func (d *gateDoor) Enter(r Request, admitted func(End), refused func(Refusal)) {
	req := limiter.Request{Key: r.Key, Cost: r.Cost, MaxWait: r.Patience}
	permit, ticket, err := d.gate.Offer(d.gate.Now(), req)
	switch {
	case err != nil:
		refused(refusal(err, r.Cost))
	case ticket == nil:
		admitted(d.end(permit))
	default:
		d.wait(ticket, r, admitted, refused)
	}
}

// wait plays the wait that [limiter.Gate.Admit] does with timers.
func (d *gateDoor) wait(t *limiter.Ticket, r Request, admitted func(End), refused func(Refusal)) {
	over := false
	settle := func() bool {
		select {
		case <-t.Ready():
			over = true
			admitted(d.end(t.Permit()))
		default:
		}
		return over
	}
	t.Notify(func() { d.w.After(0, func() { _ = over || settle() }) })
	at, indebted := t.Due()
	var due func()
	due = func() {
		if over || settle() {
			return
		}
		if !indebted {
			over = true
			permit, err := t.Expire()
			if err != nil {
				refused(refusal(err, r.Cost))
				return
			}
			admitted(d.end(permit))
			return
		}
		permit, queued, err := t.Resume(d.gate.Now())
		switch {
		case err != nil:
			over = true
			refused(refusal(err, r.Cost))
		case !queued:
			over = true
			admitted(d.end(permit))
		default:
			at, indebted = t.Due()
			d.w.After(time.Duration(at-d.gate.Now()), due)
		}
	}
	d.w.After(time.Duration(at-d.gate.Now()), due)
}

// end returns the function that ends a permit.
func (*gateDoor) end(p limiter.Permit) End { return func(o limiter.Outcome) { p.End(o) } }

// refusal returns the wire form of a refusal.
func refusal(err error, cost float64) Refusal {
	return func() labels.Document {
		rej, ok := err.(*limiter.Rejection) //nolint:errorlint // Offer returns nothing else
		if !ok {
			return labels.Document{}
		}
		return rej.Document(cost, true)
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
