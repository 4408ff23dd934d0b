package pulsargate

import (
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// The bounds on how soon the limiter is asked again.
const (
	minRetry = time.Millisecond
	maxRetry = 100 * time.Millisecond
)

// block is what stands in the way of a message.
type block struct {
	limit  string
	reason pulsarwire.Reason
	meter  *meter // that refused; nil = another limit did
}

// verdict is what the limits say about one message.
type verdict struct {
	ok     bool
	permit limiter.Permit  // when ok
	ticket *limiter.Ticket // it waits in the limiter's queue; its rates are paid
	paid   limiter.Receipt // for them, with the ticket
	rest   float64         // tokens that the ticket's permit is to be charged
	wait   time.Duration   // ask again after that
	block
}

// decideLocked asks every limit about one message: the rates of its topic, its
// groups and the gate, then the limiter. It pays all of them or none. With
// mayQueue the message may take a place in the limiter's queue.
func (p *producer) decideLocked(now int64, m *pulsarwire.Send, size int, mayQueue bool) verdict {
	s := p.s
	limits, rule := s.srv.limits.Load(), p.topic.meters.Load()
	var paid limiter.Receipt
	if limits.Mode != limiter.Off {
		s.bill = rule.bill(s.bill[:0], m.NumMessages, size)
		wait, why, ok := rule.pay(now, s.bill, &paid)
		if !ok {
			if !why.reason.ConnectionLevel() {
				wait = why.meter.rest(now, wait, s.srv.o.MinPause)
			}
			s.srv.o.Observer.Limited(rule.label, why.limit)
			if limits.Mode == limiter.Enforce {
				return verdict{wait: wait, block: why}
			}
		}
	}
	v := p.offer(now, m, mayQueue)
	switch {
	case v.ok:
	case v.ticket == nil:
		paid.Refund()
	default:
		v.paid, s.bill = paid, nil // the receipt keeps the bill
	}
	return v
}

// offer asks the limiter. A batch that is larger than its buckets are deep is
// charged afterwards, because a client cannot make it smaller.
func (p *producer) offer(now int64, m *pulsarwire.Send, mayQueue bool) verdict {
	srv := p.s.srv
	req := limiter.Request{Key: p.key, Cost: float64(m.NumMessages), MaxWait: limiter.NoWait, Class: p.class, Unclear: p.unclear, Exempt: p.exempt}
	if mayQueue {
		req.MaxWait = 0
	}
	permit, ticket, err := srv.gate.Offer(now, req)
	rest := 0.0
	if err != nil && exceedsBurst(err) {
		rest, req.Cost = req.Cost-1, 1
		permit, ticket, err = srv.gate.Offer(now, req)
	}
	p.saw(err)
	if err == nil && ticket == nil {
		permit.Charge(rest)
		return verdict{ok: true, permit: permit}
	}
	v := verdict{ticket: ticket, rest: rest}
	indebted := false
	if ticket != nil && ticket.Indebted() {
		_, due, _, _ := ticket.Step(now) // which only tells, before the debt is paid
		indebted, v.wait = true, time.Duration(due-now)
	}
	v.limit, v.reason = blame(srv.o.By, indebted, err)
	srv.o.Observer.Limited(p.topic.meters.Load().label, v.limit)
	if err != nil {
		v.wait = retryAfter(err, req.Cost)
	}
	return v
}

// launchLocked records a message that is about to be forwarded.
func (p *producer) launchLocked(now int64, m *pulsarwire.Send, permit limiter.Permit) {
	p.flights.push(flight{sequence: m.SequenceID, start: now, permit: permit})
	p.s.room.inFlight++
}
