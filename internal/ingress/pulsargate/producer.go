package pulsargate

import (
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// producer is one producer of a session. All but the constants is guarded by
// session.mu.
type producer struct {
	s               *session // constant, as are the next four
	id              uint64
	name            string // of the topic, as the client spells it
	topic           *topics.Topic
	key             string // of the limiter's partition
	class           labels.Class
	unclear, exempt bool // of the class: there is no such; it is never refused

	opening int  // PRODUCERs without an answer
	opened  bool // one was answered with success
	ending  bool // its CLOSE_PRODUCER is held
	closing bool // its CLOSE_PRODUCER was forwarded
	gone    bool // closed, or replaced by another of the same id

	flights flights
	hold    hold
	notice  notice
}

// dropLocked forgets a producer and what it has in flight or held.
func (p *producer) dropLocked(outcome limiter.Outcome) {
	if p.gone {
		return
	}
	p.gone = true
	s := p.s
	if s.book.producers[p.id] == p {
		delete(s.book.producers, p.id)
	}
	for p.flights.n > 0 {
		fl, _ := p.flights.pop(p.flights.at(0).sequence)
		fl.permit.End(outcome)
		s.room.inFlight--
	}
	delete(s.notices.sent, p.notice.id)
	p.discardLocked()
	s.srv.topics.Leave(p.topic)
	s.srv.producers.Add(-1)
	s.pause.signalLocked()
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

// restart has the latency of the last flight begin at now, if that is the
// message with the sequence id.
func (f *flights) restart(sequence uint64, now int64) {
	if f.n > 0 && f.at(f.n-1).sequence == sequence {
		f.at(f.n - 1).start = now
	}
}

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
