package limiter

import (
	"sync"
	"sync/atomic"
)

// line is where requests wait for permits: one for all partitions of a gate
// (ADR 14).
// Inside a partition who came first goes first. Among the partitions a place of
// the gate's total goes round: to the one that was served longest ago, so that
// one with a long queue takes no more of the total than one with a single
// request. That is deficit round robin for packets of one size, a permit, with
// equal quanta. Joining, leaving and serving take the same time whatever the
// length.
//
// Nobody is woken in vain: a partition whose own limit is reached steps aside
// until a permit of its own ends, since no place of the total would help it.
type line struct {
	waiting atomic.Int64 // tickets; read without mu by who has given a permit back
	hungry  atomic.Int64 // partitions in ready: they wait for nothing but the total
	inTotal atomic.Int64 // permits over all partitions, counted while there is a total

	mu    sync.Mutex       // guards the fields below and those of partitions and tickets that say so; never held across a wait
	ready chain[partition] // with tickets, and as far as is known with room; the next one first
	aside chain[partition] // with tickets, whose own limit is reached
}

// takeTotal takes one permit of the gate's total.
func (l *line) takeTotal(total int64) bool {
	for {
		n := l.inTotal.Load()
		if n >= total {
			return false
		}
		if l.inTotal.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// join puts a ticket at the end of the queue of the partition that its key
// finds by now, unless that is full. The ticket may be served when join returns.
//
// A permit may have been released between the refusal and the push. waiting is
// raised before the ticket asks once more, and read by who releases after the
// permit was given back, so one of the two sees the other.
func (l *line) join(now int64, t *Ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := t.gate.roster.find(t.req.Key); s != nil {
		t.spec = s // the one it came with may be retired
	}
	p := t.spec.part
	if t.spec.auto && p.auto.stoodLocked(now, t.spec.baseRTT(), p.tickets.n == 0) {
		return false
	}
	depth, wait := t.spec.room()
	if t.req.MaxWait > 0 {
		wait = min(wait, t.req.MaxWait)
	}
	if p.tickets.n >= depth || wait <= 0 {
		return false
	}
	t.deadline = now + int64(wait)
	if t.began == 0 {
		t.began = now
	}
	l.enterLocked(t)
	l.serveLocked()
	return true
}

// enterLocked queues a ticket and has its partition looked at.
func (l *line) enterLocked(t *Ticket) {
	p := t.spec.part
	t.place.of = t
	p.tickets.push(&t.place)
	p.queued.Add(1)
	l.waiting.Add(1)
	l.wakeLocked(p)
}

// wakeLocked has a partition with tickets looked at again, after those that are
// ready already.
func (l *line) wakeLocked(p *partition) {
	if p.tickets.n == 0 || p.place.in == &l.ready {
		return
	}
	p.place.of = p
	p.place.leave()
	l.ready.push(&p.place)
}

// next serves whom it helps that freed gave a permit back.
func (l *line) next(freed *partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeLocked(freed)
	l.serveLocked()
}

// serveLocked grants permits while there are any for those who wait. This is
// the only place that says who goes first.
func (l *line) serveLocked() {
	for l.ready.first != nil {
		p := l.ready.first.of
		s := p.spec.Load()
		held, why, ok := p.enter(s)
		if !ok && why == fullTotal {
			break
		}
		p.place.leave()
		if !ok {
			l.aside.push(&p.place)
			continue
		}
		t := p.tickets.first.of
		l.quitLocked(t)
		if p.tickets.n > 0 {
			l.ready.push(&p.place)
		}
		t.grantLocked(s, held)
	}
	l.hungry.Store(int64(l.ready.n))
}

// leave takes a ticket out of the line, and reports whether it was served
// before that.
func (l *line) leave(t *Ticket) (granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.granted && t.place.in != nil {
		l.quitLocked(t)
		l.hungry.Store(int64(l.ready.n))
	}
	return t.granted
}

// quitLocked takes a ticket out of the queue of its partition, and that out of
// the line with its last one.
func (l *line) quitLocked(t *Ticket) {
	p := t.spec.part
	t.place.leave()
	p.queued.Add(-1)
	l.waiting.Add(-1)
	if p.tickets.n == 0 {
		p.place.leave()
	}
}

// review has everybody looked at under the policy now in force. Tickets whose
// key finds another partition than before join that one, in the order in which
// they stood, even beyond its depth: they were promised a place.
func (l *line) review(find func(key string) *partitionSpec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var moved []*Ticket
	for _, c := range [2]*chain[partition]{&l.ready, &l.aside} {
		for at := c.first; at != nil; at = at.next {
			for ticket := at.of.tickets.first; ticket != nil; ticket = ticket.next {
				moved = append(moved, ticket.of)
			}
		}
	}
	for _, t := range moved {
		s := find(t.req.Key)
		if s == nil || s.part == t.spec.part {
			l.wakeLocked(t.spec.part)
			continue
		}
		l.quitLocked(t)
		t.spec = s
		l.enterLocked(t)
	}
	l.serveLocked()
}

// chain is a list of things that are in one place at most, so that joining,
// leaving and serving take the same time however long it is. The links are part
// of the things: nothing is allocated. The zero chain is empty.
type chain[T any] struct {
	first, last *link[T]
	n           int
}

// link is a thing's place in a chain, the zero link in none.
type link[T any] struct {
	prev, next *link[T]
	in         *chain[T]
	of         *T
}

// push puts l, which is in no chain, at the end.
func (c *chain[T]) push(l *link[T]) {
	l.prev, l.next, l.in = c.last, nil, c
	if c.last == nil {
		c.first = l
	} else {
		c.last.next = l
	}
	c.last = l
	c.n++
}

// leave takes l out of its chain, if it is in one.
func (l *link[T]) leave() {
	c := l.in
	if c == nil {
		return
	}
	if l.prev == nil {
		c.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		c.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next, l.in = nil, nil, nil
	c.n--
}
