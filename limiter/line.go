package limiter

import (
	"sync"
	"sync/atomic"

	"github.com/admitd/admitd/limiter/shed"
)

// line is where requests wait for permits: one for all partitions of a gate
// (ADR 14).
//
// Classes share a place that becomes free by deficit round robin: of fifteen
// places eight, four, two and one, as far as anybody waits in them. Inside a class
// it goes to the partition that holds the least for its weight, and of equals to
// the one that was served longest ago, so that one with a long queue takes no more
// than one with a single request. Inside a partition who came first goes first,
// until the queue stands: then who came last, since who came first has waited for
// so long that nobody may want the answer. Joining, leaving and serving take as
// long as the logarithm of the partitions that wait, whatever the requests.
//
// Nobody is woken in vain: a partition whose own limit is reached steps aside
// until a permit of its own ends, since no place of the total would help it.
type line struct {
	waiting  atomic.Int64 // tickets; read without mu by who has given a permit back
	foremost atomic.Int32 // ranks less the first rank of which somebody waits for nothing but the total; 0 = nobody does
	inTotal  atomic.Int64 // permits over all partitions, counted while there is a total

	mu     sync.Mutex  // guards the fields below and those of lanes and tickets that say so; never held across a wait
	ready  [ranks]crew // with tickets, and as far as is known with room
	aside  chain[lane] // with tickets, whose own limit is reached
	credit [ranks]int  // places that a class has left in this round
	serial uint64      // of the last lane that became ready
}

// takeTotal takes one permit of the gate's total, and returns how many are then
// taken.
func (l *line) takeTotal(total int64) (n int64, ok bool) {
	for {
		n = l.inTotal.Load()
		if n >= total {
			return n, false
		}
		if l.inTotal.CompareAndSwap(n, n+1) {
			return n + 1, true
		}
	}
}

// join puts a ticket into the queue of the partition that its key finds by now,
// unless that is full, or the caller will have given up when its turn comes. The
// ticket may be served when join returns.
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
	s := t.spec
	p, r := s.part, s.rank(&t.req)
	q := p.lanes.ofLocked(r)
	if s.is(auto) && q.auto.stoodLocked(now, s.baseRTT(), q.tickets.n == 0) {
		return false
	}
	depth, wait := s.room()
	ahead := p.aheadOf(r)
	if t.req.MaxWait > 0 {
		p.asked.note(now)
		if q.expectLocked(now, s, ahead) > t.req.MaxWait {
			return false
		}
		wait = min(wait, t.req.MaxWait)
	}
	if ahead >= int64(depth) || wait <= 0 {
		return false
	}
	t.deadline = now + int64(wait)
	if t.began == 0 {
		t.began = now
	}
	t.crowded = ahead >= crowdedAt(p.limit(s))
	l.enterLocked(now, t)
	l.serveLocked(now)
	return true
}

// enterLocked queues a ticket and has its lane looked at.
func (l *line) enterLocked(now int64, t *Ticket) {
	p := t.spec.part
	q := p.lanes.ofLocked(t.spec.rank(&t.req))
	q.part, q.rank = p, t.spec.rank(&t.req)
	if q.tickets.n == 0 {
		q.since = now
	}
	t.lane, t.place.of = q, t
	q.tickets.push(&t.place)
	q.n.Add(1)
	p.queued.Add(1)
	l.waiting.Add(1)
	l.wakeLocked(q)
}

// wakeLocked has a lane with tickets looked at again.
func (l *line) wakeLocked(q *lane) {
	if q.tickets.n == 0 {
		return
	}
	q.place.leave()
	l.serial++
	l.ready[q.rank].put(q, l.serial)
}

// next serves whom it helps that freed gave a permit back.
func (l *line) next(now int64, freed *partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lanes := freed.lanes.list()
	for r := range lanes {
		l.wakeLocked(&lanes[r])
	}
	l.serveLocked(now)
}

// serveLocked grants permits while there are any for those who wait. This is
// the only place that says who goes first.
func (l *line) serveLocked(now int64) {
	skip := [ranks]bool{} // classes that the total has no place for
	for {
		r, anew := l.turnLocked(&skip)
		if r == ranks {
			break
		}
		q := l.ready[r][0]
		t := q.nextLocked(now)
		if t == nil { // all of them were too late
			continue
		}
		s := q.part.spec.Load()
		e := entry{rank: r}
		if l.urgentLocked(s) {
			e.how = shed.ByFloor
		}
		held, why, ok := q.part.enter(s, e)
		switch {
		case ok:
			if anew {
				l.credit = quanta
			}
			l.credit[r]--
			l.quitLocked(t)
			l.serial++
			lanes := q.part.lanes.list()
			for i := range lanes {
				l.ready[i].fix(&lanes[i], l.serial)
			}
			t.grantLocked(now, s, held)
		case why == fullTotal:
			skip[r] = true
		default:
			l.ready[r].drop(q)
			l.aside.push(q.asideLocked())
		}
	}
	l.tellLocked()
}

// tellLocked says who waits for the total, to those who do not hold the lock.
func (l *line) tellLocked() {
	foremost := int32(0)
	for r := range l.ready {
		if len(l.ready[r]) > 0 {
			foremost = int32(ranks - r)
			break
		}
	}
	l.foremost.Store(foremost)
}

// quanta are the places of a round that classes have when all of them wait.
var quanta = [ranks]int{8, 4, 2, 1} //nolint:gochecknoglobals // a constant table

// turnLocked returns the class whose turn it is among those that wait, ranks when
// nobody does, and whether a new round begins with it.
func (l *line) turnLocked(skip *[ranks]bool) (turn rank, anew bool) {
	turn = ranks
	for r := range l.ready {
		if len(l.ready[r]) == 0 || skip[r] {
			continue
		}
		if l.credit[r] > 0 {
			return rank(r), false
		}
		if turn == ranks {
			turn = rank(r)
		}
	}
	return turn, true
}

// urgentLocked reports whether somebody waits for whom places are kept free of
// the sheddable classes: then it is the turns that share them, or a flood of
// critical requests would leave nothing.
func (l *line) urgentLocked(s *partitionSpec) bool {
	if s.is(pooled) {
		return len(l.ready[0])+len(l.ready[1]) > 0
	}
	lanes := s.part.lanes.list()
	return len(lanes) > 0 && lanes[0].tickets.n+lanes[1].tickets.n > 0
}

// leave takes a ticket out of the line, and reports whether it was served
// before that.
func (l *line) leave(t *Ticket) (granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.granted && t.place.in != nil {
		l.quitLocked(t)
		l.tellLocked()
	}
	return t.granted
}

// quitLocked takes a ticket out of its lane, and that out of the line with its
// last one.
func (l *line) quitLocked(t *Ticket) {
	q := t.lane
	t.place.leave()
	q.n.Add(-1)
	q.part.queued.Add(-1)
	l.waiting.Add(-1)
	if q.tickets.n == 0 {
		l.ready[q.rank].drop(q)
		q.place.leave()
	}
}

// review has everybody looked at under the policy now in force. Tickets whose
// key finds another partition than before, or whose class another rank, join
// that one, in the order in which they stood, even beyond its depth: they were
// promised a place.
func (l *line) review(now int64, find func(key string) *partitionSpec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lanes []*lane
	for at := l.aside.first; at != nil; at = at.next {
		lanes = append(lanes, at.of)
	}
	for r := range l.ready {
		lanes = append(lanes, l.ready[r]...)
	}
	var moved []*Ticket
	for _, q := range lanes {
		for ticket := q.tickets.first; ticket != nil; ticket = ticket.next {
			moved = append(moved, ticket.of)
		}
	}
	for _, t := range moved {
		if s := find(t.req.Key); s != nil && (s.part != t.spec.part || s.rank(&t.req) != t.lane.rank) {
			l.quitLocked(t)
			t.spec = s
			l.enterLocked(now, t)
		}
	}
	for _, q := range lanes {
		l.wakeLocked(q)
	}
	l.serveLocked(now)
}
