package limiter

import (
	"container/heap"
	"math"
	"sync/atomic"
	"time"
)

// lane is the queue of one class in one partition. Its fields but n are guarded by
// line.mu.
type classQueue struct {
	n       atomic.Int64 // tickets; read without line.mu
	part    *partition   // set when somebody joins
	rank    rank
	auto    autoQueue
	tickets list[Ticket]         // oldest first
	since   int64                // monotonic ns since when there have been tickets
	place   listNode[classQueue] // among those aside

	in     *classHeap // among the ready or the blocked; nil = in neither
	at     int        // place there, from 1
	tag    float64    // of the partition, when it was looked at; see fairness
	serial uint64     // the lower of equals goes first
}

// lanes are who waits in a partition, by class. They are made when somebody first does:
// of a hundred thousand partitions most never have a queue, and lanes are two fifths of
// one.
type classQueues struct {
	all atomic.Pointer[[ranks]classQueue]
}

// list returns the lanes, none as long as nobody has waited.
func (l *classQueues) list() []classQueue {
	if all := l.all.Load(); all != nil {
		return all[:]
	}
	return nil
}

// ofLocked returns the lane of a class. The caller holds line.mu.
func (l *classQueues) ofLocked(r rank) *classQueue {
	all := l.all.Load()
	if all == nil {
		all = &[ranks]classQueue{}
		l.all.Store(all)
	}
	return &all[r]
}

// shut reports whether the automatic queue of a class takes nobody at the moment.
func (l *classQueues) shut(now int64, r rank) bool {
	all := l.all.Load()
	return all != nil && all[r].auto.shut(now)
}

// standing reports whether the queue, in which somebody waits, absorbs no burst any
// more (compare autoQueue) and is longer than patience: it was not empty for long,
// and who came first has used up three quarters of the time that he can wait. A
// queue that is merely long, and serves everybody in time, goes on in order.
func (q *classQueue) standing(now int64) bool {
	first := q.tickets.first.of
	return now-q.since > int64(max(2*q.part.spec.Load().baseRTT(), minStand)) && now-first.began > (first.deadline-first.began)/4*3
}

// nextLocked returns the ticket of a lane whose turn it is, nil when there is none left;
// those whose time is over leave.
func (l *waitQueue) nextLocked(now int64, q *classQueue) *Ticket {
	for q.tickets.n > 0 {
		t := q.tickets.first.of
		if q.standing(now) {
			t = q.tickets.last.of
		}
		if now < t.deadline {
			return t
		}
		l.removeLocked(t) // its Step will say so
	}
	return nil
}

// asideLocked returns the lane's place among those aside.
func (q *classQueue) asideLocked() *listNode[classQueue] {
	q.place.of = q
	return &q.place
}

// classHeap is lanes of one class, a heap: the first is that of the partition which was
// given the least.
type classHeap struct {
	lanes   []*classQueue
	tickets int   // in all of them
	since   int64 // monotonic ns since when there are any
}

// Len implements [heap.Interface].
func (c *classHeap) Len() int { return len(c.lanes) }

// Less implements [heap.Interface].
func (c *classHeap) Less(i, j int) bool {
	a, b := c.lanes[i], c.lanes[j]
	return a.tag < b.tag || a.tag == b.tag && a.serial < b.serial
}

// Swap implements [heap.Interface].
func (c *classHeap) Swap(i, j int) {
	c.lanes[i], c.lanes[j] = c.lanes[j], c.lanes[i]
	c.lanes[i].at, c.lanes[j].at = i+1, j+1
}

// Push implements [heap.Interface].
func (c *classHeap) Push(x any) {
	q := x.(*classQueue) //nolint:forcetypeassert // put alone calls it
	c.lanes = append(c.lanes, q)
	q.at, q.in = len(c.lanes), c
	c.tickets += q.tickets.n
}

// Pop implements [heap.Interface].
func (c *classHeap) Pop() any {
	last := len(c.lanes) - 1
	q := c.lanes[last]
	c.lanes[last] = nil
	c.lanes = c.lanes[:last]
	q.at, q.in = 0, nil
	c.tickets -= q.tickets.n
	return q
}

// put enters a lane, or looks at it again when it is there: it keeps its turn.
func (c *classHeap) put(now int64, q *classQueue, serial uint64) {
	q.look(now)
	if q.in == c {
		heap.Fix(c, q.at-1)
		return
	}
	q.drop()
	q.serial = serial
	heap.Push(c, q)
}

// look takes over the tag that the partition has by now.
func (q *classQueue) look(now int64) {
	s := q.part.spec.Load()
	q.tag = s.common.backend.fair.rounded(now, s)
}

// fix moves a lane that is there behind its equals.
func (q *classQueue) fix(now int64, serial uint64) {
	if q.in != nil {
		q.look(now)
		q.serial = serial
		heap.Fix(q.in, q.at-1)
	}
}

// drop takes a lane out of where it is.
func (q *classQueue) drop() {
	if q.in != nil {
		heap.Remove(q.in, q.at-1)
	}
}

// count notes a ticket more or less.
func (q *classQueue) count(n int) {
	if q.in != nil {
		q.in.tickets += n
	}
}

// lastTag is the tag of the last ticket of a lane: those before it go first.
func (q *classQueue) lastTag() float64 {
	s := q.part.spec.Load()
	return q.tag + float64(q.tickets.n-1)*s.common.backend.fair.cost(s)
}

// worst returns the lane whose last ticket was given the most; nil when there is none.
func (c *classHeap) worst() (q *classQueue, tag float64) {
	for _, other := range c.lanes {
		if t := other.lastTag(); q == nil || t > tag {
			q, tag = other, t
		}
	}
	return q, tag
}

// aheadOf returns how many wait in the partition who matter as much or more.
func (p *partition) aheadOf(r rank) (n int64) {
	all := p.lanes.list()
	for i := range all[:min(int(r)+1, len(all))] {
		n += all[i].n.Load()
	}
	return n
}

// crowdedAt is how many must be ahead in the queue for a request to have found no
// room: half of an automatic queue.
func crowdedAt(limit int64) int64 {
	return max(int64(math.Sqrt(float64(limit))), minAutoDepth/2)
}

// expectLocked returns how long a request of s with so many ahead of it will wait, 0
// when nobody knows.
func (q *classQueue) expectLocked(now int64, s *partitionSpec, ahead int64) time.Duration {
	if q.tickets.n > 0 && q.part != nil && q.standing(now) {
		ahead = 0 // the last comes first
	}
	hold := math.Float64frombits(s.part.retrying.hold.Load())
	return time.Duration((float64(ahead) + 0.5) * hold / float64(max(s.part.limit(s), 1)))
}

// chain is a list of things that are in one place at most, so that joining,
// leaving and serving take the same time however long it is. The links are part
// of the things: nothing is allocated. The zero chain is empty.
type list[T any] struct {
	first, last *listNode[T]
	n           int
}

// link is a thing's place in a chain, the zero link in none.
type listNode[T any] struct {
	prev, next *listNode[T]
	in         *list[T]
	of         *T
}

// push puts l, which is in no chain, at the end.
func (c *list[T]) push(l *listNode[T]) {
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
func (l *listNode[T]) leave() {
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

// The bounds of an automatic queue.
const (
	minAutoDepth = 4
	minAutoWait  = time.Millisecond
	// unknownAutoWait is how long a request waits while no latency is known:
	// longer than the gaps of a burst, shorter than anyone notices.
	unknownAutoWait = 10 * time.Millisecond
	// minStand is the least time for which a queue may stand.
	minStand = 100 * time.Millisecond
)

// autoQueue says whether a partition's automatic queue takes anybody.
//
// A queue absorbs bursts. One that stands is no burst: it makes everybody later
// by the same time, serves nobody more, and hides from the limit that there is
// too much (Nichols and Jacobson, Controlling Delay, 2012, call it a bad queue).
// So a queue that has not been empty for as long as four latencies without load,
// and at least 100 ms, is shut: who finds no permit is refused at once. It opens
// when nobody was turned away for the same time.
type autoQueue struct {
	since  int64        // monotonic ns since when it has not been empty; guarded by line.mu
	opens  atomic.Int64 // monotonic ns when it opens again, unless somebody is turned away before
	period atomic.Int64 // ns that it may stand
}

// shut reports whether the queue takes nobody, and keeps it so for another
// period. It is one load in the common case.
func (q *autoQueue) shut(now int64) bool {
	opens := q.opens.Load()
	if now >= opens {
		return false
	}
	if period := q.period.Load(); opens-now < period-period/8 {
		q.opens.Store(now + period)
	}
	return true
}

// stoodLocked notes that somebody wants to join, and shuts the queue when it has
// stood for too long. empty says that nobody waits. The caller holds line.mu.
func (q *autoQueue) stoodLocked(now int64, base time.Duration, empty bool) bool {
	period := int64(max(4*base, minStand))
	switch {
	case empty:
		q.since = now
	case now-q.since > period:
		q.period.Store(period)
		q.opens.Store(now + period)
		return true
	}
	return false
}

// room returns how many tickets may wait in a partition's queue, and for how
// long.
//
// An automatic queue is there for chance, not for overload. While a limit of L
// is served once, arrivals at that very rate stray from L by about √L, so it
// holds twice that, two standard deviations, and not less than 4. Nobody waits
// longer than two latencies without load, for by then all who were ahead have
// been served or the backend has slowed down, which is the limit's business and
// not the queue's; nor for so long that the objective could not be met.
func (s *partitionSpec) room() (depth int, wait time.Duration) {
	if !s.is(auto) {
		return s.depth, s.maxWait
	}
	base, wait := s.commonRTT(), unknownAutoWait
	if base > 0 {
		wait = max(2*base, minAutoWait)
	}
	if s.policy.Objective > 0 {
		wait = min(wait, s.policy.Objective-base)
	}
	return autoDepth(s.part.limit(s)), wait
}

// autoDepth is how many may wait in an automatic queue before a limit.
func autoDepth(limit int64) int {
	return max(int(math.Ceil(2*math.Sqrt(float64(limit)))), minAutoDepth)
}

// commonRTT returns the latency without load: as the limit believes it, else as the
// common one does, else for how long permits were held in the last contention; 0 when
// nothing is known.
func (s *partitionSpec) commonRTT() time.Duration {
	base := s.baseRTT()
	if base == 0 && s.common.limit != nil {
		base = estimate{s.common.limit}.baseRTT()
	}
	if base == 0 && s.is(pooled) {
		base = time.Duration(s.common.backend.fair.hold.load())
	}
	return base
}
