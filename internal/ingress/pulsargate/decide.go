package pulsargate

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
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
	meter  *topics.Meter // that refused; nil = another limit did
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

// admit decides about a command of the client.
func (s *session) admit(c pulsarwire.Command, msg *relay.Message) (relay.Verdict, error) {
	switch c.Type {
	case pulsarwire.TypeSend:
		m, err := pulsarwire.DecodeSend(c.Body)
		if err != nil {
			return relay.Verdict{}, err
		}
		return relay.Verdict{Action: s.send(s.r.Now(), &m, msg)}, nil
	case pulsarwire.TypeProducer:
		return s.open(c.Body)
	case pulsarwire.TypeCloseProducer:
		return s.close(c.Body, msg.Total)
	case pulsarwire.TypeConnect: // it would carry to the broker what was meant for the gate
		return relay.Verdict{}, fmt.Errorf("%w: a second CONNECT", pulsarwire.ErrMalformed)
	case pulsarwire.TypeThrottleProducerReceipt:
		if !s.throttling {
			return relay.Verdict{}, nil
		}
		id, err := pulsarwire.DecodeRequestID(c.Body, 1)
		s.acknowledged(id)
		return relay.Verdict{Action: relay.Swallow}, err
	default:
		return relay.Verdict{}, nil
	}
}

// send decides about one message.
func (s *session) send(now int64, m *pulsarwire.Send, msg *relay.Message) relay.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.book.producers[m.ProducerID]
	if p == nil {
		return relay.Pass // the broker knows what to do with it
	}
	size := msg.Total
	if s.room.inFlight >= s.srv.limits.Load().MaxPending {
		return s.pause.beginLocked(now, why{kind: pausePending, producer: p})
	}
	if p.hold.on {
		return s.holdLocked(now, p, heldFrame{send: *m, size: size})
	}
	full := s.room.full(size)
	v := p.decideLocked(now, m, size, full == "" && s.o.Method != Pause)
	switch {
	case v.ok:
		p.launchLocked(now, m, v.permit)
		if !msg.Whole() {
			s.upload = upload{producer: p, sequence: m.SequenceID, left: size - len(msg.Bytes)}
		}
		return relay.Pass
	case s.o.Method == Pause:
		return s.pause.beginLocked(now, why{kind: pauseTime, producer: p, until: now + int64(v.wait), block: v.block})
	case full != "":
		return s.pause.beginLocked(now, why{
			kind: pauseRoom, producer: p, size: size, until: now + int64(v.wait), block: block{limit: full},
		})
	}
	p.blockLocked(now, &v)
	return s.holdLocked(now, p, heldFrame{send: *m, size: size})
}

// decideLocked asks every limit about one message: the rates of its topic, its
// groups and the gate, then the limiter. It pays all of them or none. With
// mayQueue the message may take a place in the limiter's queue.
func (p *producer) decideLocked(now int64, m *pulsarwire.Send, size int, mayQueue bool) verdict {
	s := p.s
	limits, rule := s.srv.limits.Load(), p.topic.Rule()
	var paid limiter.Receipt
	if limits.Mode != limiter.Off {
		s.bill = rule.Bill(s.bill[:0], m.NumMessages, size)
		if wait, m := rule.Pay(now, s.bill, s.srv.current.Load().MinPause, &paid); m != nil {
			s.o.Observer.Limited(rule.Label, m.Limit)
			if limits.Mode == limiter.Enforce {
				return verdict{wait: wait, block: block{limit: m.Limit, reason: m.Reason, meter: m}}
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
	v.limit, v.reason = blame(p.s.o.By, indebted, err)
	p.s.o.Observer.Limited(p.topic.Rule().Label, v.limit)
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

// open registers a producer, or refuses it when the connection or the gate is
// past its bounds.
func (s *session) open(body []byte) (relay.Verdict, error) {
	m, err := pulsarwire.DecodeProducer(body)
	if err != nil {
		return relay.Verdict{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.book.pending(m.RequestID) {
		return relay.Verdict{}, errSameID
	}
	if s.book.conflicts(&m) {
		return refuse(m.RequestID, pulsarwire.ServiceNotReady, "the producer is still open"), nil
	}
	if why := s.room.crowded(&s.book); why != "" {
		s.o.Observer.Happened(EventProducerRefused)
		return refuse(m.RequestID, pulsarwire.TooManyRequests, why), nil
	}
	s.registerLocked(&m, body)
	return relay.Verdict{}, nil
}

// registerLocked adds a producer to the book.
func (s *session) registerLocked(m *pulsarwire.Producer, body []byte) {
	if old := s.book.producers[m.ProducerID]; old != nil {
		if !old.closing { // asked for twice; brokers keep the first and may refuse the second
			old.opening++
			s.book.requests[m.RequestID] = request{producer: old}
			return
		}
		old.dropLocked(limiter.Ignored) // the client sends again what had no receipt
	}
	name, now := topics.Parse(m.Topic), s.srv.current.Load()
	p := &producer{
		s: s, id: m.ProducerID, name: m.Topic, topic: s.srv.topics.Join(name, s.r.Now()), opening: 1,
		key: partitionKey(now.By, &name, s.remote), hold: hold{applied: s.srv.applied.Load()},
	}
	p.classify(now.Classes, m, body)
	s.book.producers[m.ProducerID] = p
	s.book.requests[m.RequestID] = request{producer: p}
	s.srv.producers.Add(1)
}

// close notes that the client ends a producer. It must not overtake the
// producer's messages that are held.
func (s *session) close(body []byte, size int) (relay.Verdict, error) {
	m, err := pulsarwire.DecodeCloseProducer(body)
	if err != nil {
		return relay.Verdict{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.book.producers[m.ProducerID]
	if p == nil {
		return relay.Verdict{}, nil
	}
	if p.hold.on {
		act := s.holdLocked(s.r.Now(), p, heldFrame{size: size, control: true, request: m.RequestID})
		p.ending = p.ending || act == relay.Keep
		return relay.Verdict{Action: act}, nil
	}
	s.book.closing(p, m.RequestID, s.srv.limits.Load().MaxProducers)
	return relay.Verdict{}, nil
}
