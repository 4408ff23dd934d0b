package shadow

import (
	"time"

	"github.com/admitd/admitd/internal/eventqueue"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// candidate is a gate that decides in the stage's time, and before a backend
// that is guessed.
type candidate struct {
	name   string
	stage  *Stage
	gate   *limiter.Gate
	time   clock
	events eventqueue.Queue[event]
	due    []*waiter // granted a permit under the gate's lock
	inside int       // permits held
	counts counts
	begun  int64 // ns of the first request; 0 = none yet
}

// clock is the stage's time, as the gate of a candidate reads it.
type clock int64

// Now implements [limiter.Clock].
func (c *clock) Now() int64 { return int64(*c) }

// Trusted implements [limiter.Clock].
func (*clock) Trusted() bool { return true }

// Epoch implements [limiter.Clock].
func (*clock) Epoch() uint32 { return 0 }

func newCandidate(s *Stage, c *Candidate) *candidate {
	out := &candidate{name: c.Name, stage: s, time: clock(s.now)}
	out.gate = limiter.New(c.Name, c.Policy, limiter.Options{Clock: &out.time, Rand: s.o.Rand})
	return out
}

// offer has the candidate decide about a request, and reports whether it would
// have refused it at once.
func (c *candidate) offer(now int64, req limiter.Request, enforced bool) (refused bool) {
	if c.begun == 0 {
		c.begun = now
	}
	c.advance(now)
	c.counts.count(now, func(t *tally) {
		t.offered++
		if enforced {
			t.enforced++
		}
	})
	permit, ticket, err := c.gate.Offer(now, req)
	switch {
	case err != nil:
		c.refuse(err)
		return true
	case ticket == nil:
		c.begin(now, permit)
	default:
		w := &waiter{c: c, ticket: ticket, since: now}
		ticket.Notify(func() { c.due = append(c.due, w) })
		w.step()
	}
	return false
}

func (c *candidate) refuse(err error) {
	rej, ok := err.(*limiter.Rejection) //nolint:errorlint // a gate returns nothing else
	reason := labels.ConcurrencyLimit
	if ok {
		reason = rej.Reason
	}
	c.counts.count(int64(c.time), func(t *tally) { t.refuse(reason) })
}

// begin has a request begin that was offered at since: its permit ends when the
// backend would have answered.
func (c *candidate) begin(since int64, permit limiter.Permit) {
	now := int64(c.time)
	c.inside++
	latency, outcome, beyond := c.stage.curve.draw(now, c.inside, c.stage.o.Rand())
	c.events.Add(now+int64(latency), event{permit: permit, outcome: outcome})
	c.counts.count(now, func(t *tally) {
		t.admitted++
		if beyond {
			t.beyond++
		}
		if outcome == limiter.Success {
			t.record(time.Duration(now-since) + latency)
		}
	})
}

// advance plays what happens until now.
func (c *candidate) advance(now int64) {
	for {
		for len(c.due) > 0 {
			w := c.due[0]
			c.due = c.due[1:]
			w.step()
		}
		if at, ok := c.events.Next(); !ok || at > now {
			break
		}
		at, e := c.events.Take()
		c.time = clock(max(at, int64(c.time)))
		if e.waiter != nil {
			e.waiter.step()
			continue
		}
		c.inside--
		e.permit.End(e.outcome)
	}
	c.time = clock(max(now, int64(c.time)))
}

// waiter is a request in the candidate's queue.
type waiter struct {
	c      *candidate
	ticket *limiter.Ticket
	since  int64
	over   bool
}

// step does what is due, and plans the next step when that does not end the
// wait.
func (w *waiter) step() {
	if w.over {
		return
	}
	permit, next, done, err := w.ticket.Step(int64(w.c.time))
	if !done {
		w.c.events.Add(next, event{waiter: w})
		return
	}
	w.over = true
	if err != nil {
		w.c.refuse(err)
		return
	}
	w.c.begin(w.since, permit)
}

// event is something that happens: a step of a waiter, or else the end
// of a permit.
type event struct {
	waiter  *waiter
	permit  limiter.Permit
	outcome limiter.Outcome
}
