package mongogate

import (
	"sync"

	"github.com/admitd/admitd/limiter"
)

// pendingBound is how many requests of one connection may be unanswered
// before no further one is read.
const pendingBound = 512

// kind says what becomes of a reply.
type kind uint8

// The kinds.
const (
	kindCommand kind = iota
	kindHello        // the reply may have to be rewritten
	kindAuth         // the reply may name the user
	kindUnsure       // of an opcode that may have no reply
	kindAnswer       // answered by the gate; waits for its turn
)

// entry is a request that is not answered yet.
type entry struct {
	next    *entry
	id      int32 // of the request; its reply says responseTo
	stream  int32 // of the last reply in an exhaust stream, to which the next one responds
	kind    kind
	streams bool // a reply of a stream came, more follow
	monitor bool // a hello that waits for changes: nothing to wait for in a drain
	sampled bool // the permit is ended
	fair    bool // the latency says something of the backend
	exhaust bool // a stream may come
	large   bool // its end was sent later than it was admitted
	cost    float64
	size    int // of the request, in bytes
	sent    int64
	cursor  int64  // of getMore
	txn     txnKey // that ends with the reply
	user    string // of kindAuth and kindHello: who it would be
	answer  []byte // of kindAnswer
	inject  []byte // error that a fail point puts into the reply
	permit  limiter.Permit
}

// pending is what one connection has not been answered yet, oldest first. The
// entry of a reply stays until the reply's last byte is written, so that while
// pending is empty nobody writes to the client but who answers in the gate.
type pending struct {
	mu   sync.Mutex // guards the fields below; never held across a wait
	head *entry
	tail *entry
	n    int
	free *entry
	full bool          // the client's side waits for room
	room chan struct{} // tells it that an entry left; holds one value
}

// get returns an empty entry.
func (p *pending) get() *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.free; e != nil {
		p.free = nil
		*e = entry{}
		return e
	}
	return &entry{}
}

// put gives back an entry that was not pushed.
func (p *pending) put(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = e
}

// tryPush appends e unless there are too many.
func (p *pending) tryPush(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n >= pendingBound {
		p.full = true
		return false
	}
	p.appendLocked(e)
	return true
}

// tryAnswer reports whether an answer may be written at once. Otherwise the
// answer is queued, and the reader of replies writes it in its turn; ok is
// false when too many wait already.
func (p *pending) tryAnswer(id int32, answer []byte) (now, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.n == 0:
		return true, true
	case p.n >= pendingBound:
		p.full = true
		return false, false
	}
	p.appendLocked(&entry{id: id, kind: kindAnswer, answer: append([]byte(nil), answer...)})
	return false, true
}

// appendLocked appends e.
func (p *pending) appendLocked(e *entry) {
	if p.tail == nil {
		p.head = e
	} else {
		p.tail.next = e
	}
	p.tail = e
	p.n++
}

// match returns the entry that a reply belongs to, nil when it belongs to
// none, and whether others are unanswered. Entries before it that may have no reply are forgotten: servers
// answer in order.
func (p *pending) match(responseTo int32) (e *entry, others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e = p.head; e != nil; e = e.next {
		if e.kind == kindAnswer || (e.id != responseTo && (!e.streams || e.stream != responseTo)) {
			continue
		}
		for p.head != e && p.head.kind == kindUnsure {
			p.removeLocked(p.head)
		}
		return e, p.n > 1
	}
	return nil, p.n > 0
}

// done removes an entry whose reply is written, and returns the answers whose
// turn has come; the caller writes them and calls done for each.
func (p *pending) done(e *entry) (turn *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(e)
	if e.kind != kindAnswer {
		p.free = e
	}
	if p.full {
		p.full = false
		p.room <- struct{}{} // buffered, and full is set once per wait
	}
	if p.head != nil && p.head.kind == kindAnswer {
		return p.head
	}
	return nil
}

// removeLocked unlinks e.
func (p *pending) removeLocked(e *entry) {
	var before *entry
	for at := p.head; at != nil; before, at = at, at.next {
		if at != e {
			continue
		}
		if before == nil {
			p.head = e.next
		} else {
			before.next = e.next
		}
		if p.tail == e {
			p.tail = before
		}
		e.next = nil
		p.n--
		return
	}
}

// state reports how many requests are unanswered, and whether all of them are
// monitors that wait for changes.
func (p *pending) state() (n int, monitors bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.head; e != nil; e = e.next {
		if !e.monitor {
			return p.n, false
		}
	}
	return p.n, true
}

// unsure reports whether it is not known how many replies will come.
func (p *pending) unsure() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.head; e != nil; e = e.next {
		if e.kind == kindUnsure {
			return true
		}
	}
	return false
}

// abandon ends every permit that is still held.
func (p *pending) abandon(o limiter.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.head; e != nil; e = e.next {
		e.permit.End(o)
	}
	p.head, p.tail, p.n = nil, nil, 0
}
