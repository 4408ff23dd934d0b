package limiter

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/admitd/admitd/limiter/shed"
)

// line is where requests wait for permits: one for all partitions of all gates that
// share a backend (ADR 14, ADR 33).
//
// Classes share a place that becomes free by deficit round robin: of fifteen
// places eight, four, two and one, as far as anybody waits in them. Inside a class
// it goes to the partition that was given the least for its weight (see fairness),
// and of equals to the one that was served longest ago, so that one with a long queue
// takes no more than one with a single request. Inside a partition who came first goes
// first, until the queue stands: then who came last, since who came first has waited for
// so long that nobody may want the answer. Joining, leaving and serving take as
// long as the logarithm of the partitions that wait, whatever the requests.
//
// Nobody is woken in vain: a partition whose own limit is reached steps aside
// until a permit of its own ends, and one whose gate has reached its total until a
// permit of that gate ends, since no permit of the common limit would help it.
type waitQueue struct {
	waiting  atomic.Int64         // tickets; read without mu by who has given a permit back
	foremost atomic.Int32         // ranks less the first rank of which somebody waits for nothing but the common limit; 0 = nobody does
	full     [ranks]atomic.Uint64 // float64 bits of the greatest tag in the automatic queue of a class; 0 = it is not full

	mu     sync.Mutex       // guards the fields below and those of lanes and tickets that say so; never held across a wait
	ready  [ranks]classHeap // lanes that wait for the common limit
	aside  list[classQueue] // lanes whose partition has reached a bound of its own
	credit [ranks]int
	serial uint64 // of the last lane that became ready
}

// join puts a ticket into the queue of the partition that its key finds by now,
// unless that is full, or the caller will have given up when its turn comes. The
// ticket may be served when join returns.
//
// A permit may have been released between the refusal and the push. waiting is
// raised before the ticket asks once more, and read by who releases after the
// permit was given back, so one of the two sees the other.
func (t *Ticket) join(now int64) bool {
	l := t.lockToJoin(now)
	defer l.mu.Unlock()
	s := t.spec
	p, r := s.part, s.rank(&t.req)
	q := p.lanes.ofLocked(r)
	common := s.is(pooled) && p.tally.held() < s.places()
	if s.is(auto) && q.auto.stoodLocked(now, s.baseRTT(), q.tickets.n == 0) && !(common && s.common.backend.fair.underserved(now, s)) {
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
	if s.is(auto) && common && !l.makeRoomLocked(now, s, q, r) {
		return false
	}
	t.deadline = now + int64(wait)
	if t.began == 0 {
		t.began = now
	}
	t.crowded = ahead >= crowdedAt(p.limit(s))
	l.enterLocked(now, t)
	l.serveLocked(now)
	if common && !t.granted {
		s.common.backend.fair.waits(now)
	}
	return true
}

// lock locks the line in which the ticket is, or that it is to join, and returns it.
func (t *Ticket) lock() *waitQueue {
	for {
		l := t.line.Load()
		l.mu.Lock()
		if t.line.Load() == l {
			return l
		}
		l.mu.Unlock() // the gate has another backend since
	}
}

// lockToJoin is lock for a ticket that is in no line yet; it then has the spec that
// its key finds by now, since the one it came with may be retired.
func (t *Ticket) lockToJoin(now int64) *waitQueue {
	for {
		l := t.lock()
		t.spec = t.gate.partitions.resolve(now, t.req.Key)
		if t.spec.line() == l {
			return l
		}
		t.line.Store(t.spec.line())
		l.mu.Unlock()
	}
}

// takes reports whether the automatic queue for what the partitions share may take a
// request of s: its lane is open, or others were given more, and if it is full it holds
// somebody who was given more. It is asked without the lock, so that a flood is refused
// by reading.
func (l *waitQueue) takes(now int64, s *partitionSpec, r rank) bool {
	fair := &s.common.backend.fair
	full, q := l.full[r].Load(), s.part.lanes.list()
	if full == 0 && q == nil {
		return true
	}
	tag := fair.tagOf(now, s)
	if q != nil {
		tag += float64(q[r].n.Load()) * fair.cost(s)
		if tag >= fair.level.load() && q[r].auto.shut(now) {
			return false
		}
	}
	return full == 0 || tag < math.Float64frombits(full)
}

// makeRoomLocked has the automatic queue take a ticket of s into the lane q, if it
// may. One queue of all who wait for what they share absorbs bursts, as that of a
// partition does (see autoQueue); when it is full the one of them who was given the
// most makes room for who was given less.
func (l *waitQueue) makeRoomLocked(now int64, s *partitionSpec, q *classQueue, r rank) bool {
	if !l.takes(now, s, r) {
		return false
	}
	c, fair := &l.ready[r], &s.common.backend.fair
	if c.tickets < c.depth(now, s) {
		return true
	}
	worst, most := c.worst()
	if worst == nil || fair.tagOf(now, s)+float64(q.tickets.n)*fair.cost(s) >= most {
		l.full[r].Store(math.Float64bits(most))
		return false
	}
	t := worst.tickets.last.of
	if worst.standing(now) {
		t = worst.tickets.first.of
	}
	l.removeLocked(t)
	t.evictLocked()
	return true
}

// depth is how many may wait in the automatic queue for what the partitions share: as
// many as are served in one latency without load, which absorbs bursts, and while the
// queue stands just enough to choose from.
func (c *classHeap) depth(now int64, s *partitionSpec) int {
	whole := s.whole()
	if c.isQueued(now, s) {
		return autoDepth(whole)
	}
	return max(autoDepth(whole), int(whole))
}

// stands reports whether the queue was not empty for so long that it absorbs no burst
// any more.
func (c *classHeap) isQueued(now int64, s *partitionSpec) bool {
	return len(c.lanes) > 0 && now-c.since > int64(max(4*s.commonRTT(), minStand))
}

// enterLocked queues a ticket and has its lane looked at.
func (l *waitQueue) enterLocked(now int64, t *Ticket) {
	p := t.spec.part
	q := p.lanes.ofLocked(t.spec.rank(&t.req))
	q.part, q.rank = p, t.spec.rank(&t.req)
	if q.tickets.n == 0 {
		q.since = now
	}
	t.lane, t.place.of = q, t
	q.tickets.push(&t.place)
	q.count(1)
	q.n.Add(1)
	p.queued.Add(1)
	t.gate.queued.Add(1)
	l.waiting.Add(1)
	l.wakeLocked(now, q)
}

// wakeLocked has a lane with tickets looked at again.
func (l *waitQueue) wakeLocked(now int64, q *classQueue) {
	if q.tickets.n == 0 {
		return
	}
	q.place.leave()
	l.serial++
	if c := &l.ready[q.rank]; len(c.lanes) == 0 {
		c.since = now
	}
	blocked := q.in != nil && q.in != &l.ready[q.rank]
	l.ready[q.rank].put(now, q, l.serial)
	if g := q.part.gate; blocked {
		g.foremost.Store(firstQueue(&g.blocked))
	}
}

// next serves whom it helps that freed gave a permit back.
func (l *waitQueue) next(now int64, freed *partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if freed.gate.line() == l { // else the gate has another backend since
		lanes := freed.lanes.list()
		for r := range lanes {
			l.wakeLocked(now, &lanes[r])
		}
		l.unblockLocked(now, freed.gate)
	}
	l.serveLocked(now)
}

// wakeAside has all lanes looked at again that stepped aside.
func (l *waitQueue) wakeAside(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.aside.first != nil {
		l.wakeLocked(now, l.aside.first.of)
	}
	l.serveLocked(now)
}

// unblockLocked has the first lane of each class looked at again that waits for the
// gate's total.
func (l *waitQueue) unblockLocked(now int64, g *Gate) {
	for r := range g.blocked {
		if lanes := g.blocked[r].lanes; len(lanes) > 0 {
			l.wakeLocked(now, lanes[0])
		}
	}
}

// serveLocked grants permits while there are any for those who wait. This is
// the only place that says who goes first.
func (l *waitQueue) serveLocked(now int64) {
	skip := [ranks]bool{} // classes that the common limit has no place for
	for {
		r, anew := l.turnLocked(&skip)
		if r == ranks {
			break
		}
		q := l.ready[r].lanes[0]
		t := l.nextLocked(now, q)
		if t == nil { // all of them were too late: the permit is for the next
			l.unblockLocked(now, q.part.gate)
			continue
		}
		s := q.part.spec.Load()
		e := entry{rank: r}
		if l.urgentLocked(s) {
			e.how = shed.ByFloor
		}
		at, why, ok := q.part.enter(s, e)
		switch {
		case ok:
			if anew {
				l.credit = quanta
			}
			l.credit[r]--
			l.removeLocked(t)
			t.grantLocked(now, s, at)
			if q.tickets.n > 0 && s.is(pooled) {
				s.common.backend.fair.lacks(now, q.part)
			}
			l.serial++
			lanes := q.part.lanes.list()
			for i := range lanes {
				lanes[i].fix(now, l.serial)
			}
		case why != fullTotal:
			q.drop()
			l.aside.push(q.asideLocked())
			l.unblockLocked(now, q.part.gate)
		default:
			if _, ofGate := s.commonFull(e); !ofGate {
				skip[r] = true
				break
			}
			s.part.gate.blockLocked(now, q)
			if _, ofGate := s.commonFull(e); !ofGate { // given back meanwhile, see stepBack
				l.wakeLocked(now, q)
			}
		}
	}
	l.notifyLocked()
}

// blockLocked has a lane wait for a permit of the gate's total.
func (g *Gate) blockLocked(now int64, q *classQueue) {
	g.blocked[q.rank].put(now, q, q.serial)
	g.foremost.Store(firstQueue(&g.blocked))
}

// foremost returns ranks less the first rank that waits, 0 when none does.
func firstQueue(all *[ranks]classHeap) int32 {
	for r := range all {
		if len(all[r].lanes) > 0 {
			return int32(ranks - r)
		}
	}
	return 0
}

// tellLocked says who waits for what the partitions share, to those who do not hold
// the lock.
func (l *waitQueue) notifyLocked() {
	l.foremost.Store(firstQueue(&l.ready))
}

// quanta are the places of a round that classes have when all of them wait.
var quanta = [ranks]int{8, 4, 2, 1} //nolint:gochecknoglobals // a constant table

// turnLocked returns the class whose turn it is among those that wait, ranks when
// nobody does, and whether a new round begins with it.
func (l *waitQueue) turnLocked(skip *[ranks]bool) (turn rank, anew bool) {
	turn = ranks
	for r := range l.ready {
		if len(l.ready[r].lanes) == 0 || skip[r] {
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
func (l *waitQueue) urgentLocked(s *partitionSpec) bool {
	if s.is(pooled) {
		return len(l.ready[0].lanes)+len(l.ready[1].lanes) > 0
	}
	lanes := s.part.lanes.list()
	return len(lanes) > 0 && lanes[0].tickets.n+lanes[1].tickets.n > 0
}

// leave takes the ticket out of its line, and reports whether it was served
// before that.
func (t *Ticket) leave() (granted bool) {
	l := t.lock()
	defer l.mu.Unlock()
	if !t.granted && t.place.in != nil {
		l.removeLocked(t)
		l.notifyLocked()
	}
	return t.granted
}

// removeLocked takes a ticket out of its lane, and that out of the line with its
// last one.
func (l *waitQueue) removeLocked(t *Ticket) {
	q := t.lane
	t.place.leave()
	q.count(-1)
	q.n.Add(-1)
	q.part.queued.Add(-1)
	t.gate.queued.Add(-1)
	l.waiting.Add(-1)
	l.full[q.rank].Store(0)
	if q.tickets.n == 0 {
		q.drop()
		q.place.leave()
		t.gate.foremost.Store(firstQueue(&t.gate.blocked))
	}
}

// lanesOfLocked returns the lanes of a gate in which somebody waits.
func (l *waitQueue) lanesOfLocked(g *Gate) (lanes []*classQueue) {
	see := func(q *classQueue) {
		if q.part.gate == g {
			lanes = append(lanes, q)
		}
	}
	for at := l.aside.first; at != nil; at = at.next {
		see(at.of)
	}
	for r := range l.ready {
		for _, q := range l.ready[r].lanes {
			see(q)
		}
		lanes = append(lanes, g.blocked[r].lanes...)
	}
	return lanes
}

// ticketsOf returns those who wait in some lanes, of each lane in their order.
func ticketsOf(lanes []*classQueue) (all []*Ticket) {
	for _, q := range lanes {
		for ticket := q.tickets.first; ticket != nil; ticket = ticket.next {
			all = append(all, ticket.of)
		}
	}
	return all
}

// review has everybody of a gate looked at under the policy now in force. Tickets
// whose key finds another partition than before, or whose class another rank, join
// that one, in the order in which they stood, even beyond its depth: they were
// promised a place.
func (l *waitQueue) review(now int64, g *Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lanes := l.lanesOfLocked(g)
	for _, t := range ticketsOf(lanes) {
		if s := g.partitions.resolve(now, t.req.Key); s.part != t.spec.part || s.rank(&t.req) != t.lane.rank {
			l.removeLocked(t)
			t.spec = s
			l.enterLocked(now, t)
		}
	}
	for _, q := range lanes {
		l.wakeLocked(now, q)
	}
	l.serveLocked(now)
}
