package pulsargate

import (
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// producer is one producer of a session. All fields but the constants are
// guarded by session.mu.
type producer struct {
	id    uint64 // constant, as are the next three
	name  string // of the topic, as the client spells it
	topic *topic
	key   string // of the limiter's partition

	opening int  // PRODUCERs without an answer
	opened  bool // one was answered with success
	ending  bool // its CLOSE_PRODUCER is held
	closing bool // its CLOSE_PRODUCER was forwarded
	flights flights
	gone    bool // closed, or replaced by another of the same id

	// The rest is about being throttled; see hold.go.
	held      []heldFrame
	releasing bool          // its messages go to held, not to the broker
	running   bool          // a goroutine takes care of held
	gives     chan struct{} // closed when held is discarded; nil when nobody runs
	since     int64         // monotonic ns when the present reason began
	resumeAt  int64         // monotonic ns before which nothing is released
	applied   uint64        // of the server, when resumeAt was computed
	limit     string
	reason    pulsarwire.Reason
	meter     *meter   // that refused the first held message; nil = another limit did
	waiting   *waiting // the first held message waits in the limiter's queue
	notice    notice
}

// verdict is what the limits say about one message.
type verdict struct {
	ok     bool
	permit limiter.Permit  // when ok
	ticket *limiter.Ticket // it waits in the limiter's queue; its rates are paid
	rest   float64         // tokens that the ticket's permit is to be charged
	wait   time.Duration   // ask again after that
	limit  string
	reason pulsarwire.Reason
	meter  *meter // that refused; nil = the limiter did
}

// decide asks every limit about one message: the rates of its topic, its groups
// and the gate, then the limiter. It pays all of them or none. With mayQueue the
// message may take a place in the limiter's queue.
func (s *session) decide(now int64, p *producer, m *pulsarwire.Send, size int, mayQueue bool) verdict {
	limits, rule := s.srv.limits.Load(), p.topic.meters.Load()
	paid := false
	if limits.Mode != limiter.Off {
		v := s.pay(now, rule, m, size)
		if paid = v.ok; !paid && limits.Mode == limiter.Enforce {
			return v
		}
	}
	v := s.offer(now, p, m, mayQueue)
	if !v.ok && v.ticket == nil && paid {
		refund(rule.meters, m, size)
	}
	return v
}

// pay takes the tokens of one message from every meter, or from none.
func (s *session) pay(now int64, rule *topicRule, m *pulsarwire.Send, size int) verdict {
	for i := range rule.meters {
		meter := &rule.meters[i]
		wait, ok := meter.take(now, meter.cost(m.NumMessages, size))
		if ok {
			continue
		}
		refund(rule.meters[:i], m, size)
		if !meter.reason.ConnectionLevel() {
			if wait = max(wait, s.srv.o.MinPause); meter.resumeAt.Load() < now {
				meter.resumeAt.Store(now + int64(wait))
			}
		}
		s.srv.o.Observer.Limited(rule.label, meter.limit)
		return verdict{wait: wait, limit: meter.limit, reason: meter.reason, meter: meter}
	}
	return verdict{ok: true}
}

// refund returns the tokens of one message.
func refund(meters []meter, m *pulsarwire.Send, size int) {
	for i := range meters {
		meters[i].bucket.Refund(meters[i].cost(m.NumMessages, size))
	}
}

// The bounds on how soon the limiter is asked again.
const (
	minRetry = time.Millisecond
	maxRetry = 100 * time.Millisecond
)

// offer asks the limiter. A batch that is larger than its buckets are deep is
// charged afterwards, because a client cannot make it smaller.
func (s *session) offer(now int64, p *producer, m *pulsarwire.Send, mayQueue bool) verdict {
	req := limiter.Request{Key: p.key, Cost: float64(m.NumMessages), MaxWait: -1}
	if mayQueue {
		req.MaxWait = 0
	}
	permit, ticket, err := s.srv.gate.Offer(now, req)
	rest := 0.0
	if err != nil && exceedsBurst(err) {
		rest, req.Cost = req.Cost-1, 1
		permit, ticket, err = s.srv.gate.Offer(now, req)
	}
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
	v.limit, v.reason = blame(s.srv.o.By, indebted, err)
	s.srv.o.Observer.Limited(p.topic.meters.Load().label, v.limit)
	if err != nil {
		v.wait = retryAfter(err, req.Cost)
	}
	return v
}

// flight is one message that was forwarded and has no receipt yet.
type flight struct {
	sequence uint64
	start    int64 // monotonic ns
	permit   limiter.Permit
}

// flights is a queue of flights in the order of their sending. It grows to what
// is in flight at most and then allocates nothing.
type flights struct {
	ring []flight // its length is a power of two, or zero
	head int
	n    int
}

// push adds a flight at the end.
func (f *flights) push(fl flight) {
	if f.n == len(f.ring) {
		grown := make([]flight, max(8, 2*len(f.ring)))
		for i := range f.n {
			grown[i] = *f.at(i)
		}
		f.ring, f.head = grown, 0
	}
	*f.at(f.n) = fl
	f.n++
}

// at returns the i-th flight.
func (f *flights) at(i int) *flight { return &f.ring[(f.head+i)&(len(f.ring)-1)] }

// pop takes out the first flight with the sequence id: the very first, unless
// the broker answers out of order. Chunks of one message share an id.
func (f *flights) pop(sequence uint64) (flight, bool) {
	for i := range f.n {
		if f.at(i).sequence != sequence {
			continue
		}
		fl := *f.at(i)
		for ; i > 0; i-- {
			*f.at(i) = *f.at(i - 1)
		}
		*f.at(0) = flight{}
		f.head = (f.head + 1) & (len(f.ring) - 1)
		f.n--
		return fl, true
	}
	return flight{}, false
}

// launchLocked records a message that is about to be forwarded.
func (s *session) launchLocked(p *producer, now int64, m *pulsarwire.Send, permit limiter.Permit) {
	p.flights.push(flight{sequence: m.SequenceID, start: now, permit: permit})
	s.inFlight++
}

// landed records the receipt of a message, or its failure.
func (s *session) landed(now int64, id, sequence uint64, outcome limiter.Outcome) {
	s.mu.Lock()
	var fl flight
	found := false
	if p := s.producers[id]; p != nil {
		fl, found = p.flights.pop(sequence)
	}
	if found {
		s.inFlight--
	}
	s.mu.Unlock()
	if !found {
		s.srv.o.Observer.Happened(EventSendReceiptUnknown)
		return
	}
	fl.permit.EndSampled(time.Duration(max(now-fl.start, 1)), outcome)
	s.signal()
}
