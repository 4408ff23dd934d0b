package pulsargate

import (
	"fmt"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// errSameID ends the connection of a client whose answers could not be told apart.
var errSameID = fmt.Errorf("%w: two requests of the same id", pulsarwire.ErrMalformed)

// book is what a connection has opened, and asked to open or close. It is
// guarded by session.mu.
type openTable struct {
	producers map[uint64]*producer
	requests  map[uint64]request  // PRODUCER and CLOSE_PRODUCER without an answer, by request id
	refused   map[uint64]struct{} // the requests of refused producers, to notice an id that was used twice
}

// request is a client's request whose answer changes the book.
type request struct {
	producer *producer
	closing  bool
}

// newBook returns an empty book.
func newBook() openTable {
	return openTable{producers: map[uint64]*producer{}, requests: map[uint64]request{}, refused: map[uint64]struct{}{}}
}

// pending reports whether a request of that id waits for its answer.
func (b *openTable) pending(id uint64) bool {
	_, found := b.requests[id]
	return found
}

// conflicts reports whether a producer of the same id is open for another topic,
// or its end is still held. Brokers keep the older of the two, so the gate could
// not tell whose messages come next.
func (b *openTable) conflicts(m *pulsarwire.Producer) bool {
	old := b.producers[m.ProducerID]
	return old != nil && !old.closing && (old.ending || old.name != m.Topic)
}

// closing records that the end of a producer is forwarded. Half as many as
// requests may wait, at most, are producers.
func (b *openTable) closing(p *producer, id uint64, producers int) {
	p.closing = true
	if len(b.requests) < 2*producers {
		b.requests[id] = request{producer: p, closing: true}
	}
}

// answer settles the request with the given id. It returns the producer that is
// thereby over, if one is.
func (b *openTable) answer(id uint64, t pulsarwire.Type, producers int) (over *producer, err error) {
	r, found := b.requests[id]
	if !found {
		if _, refused := b.refused[id]; refused && t == pulsarwire.TypeProducerSuccess {
			return nil, errSameID
		}
		return nil, nil
	}
	delete(b.requests, id)
	p, success := r.producer, t != pulsarwire.TypeError
	if r.closing {
		if success {
			return p, nil
		}
		return nil, nil
	}
	p.opening--
	if p.opened = p.opened || success; p.opened || p.opening > 0 {
		return nil, nil
	}
	if len(b.refused) >= producers {
		return p, fmt.Errorf("pulsargate: %d producers were refused", len(b.refused))
	}
	b.refused[id] = struct{}{}
	return p, nil
}
