package limiter

import (
	"sync/atomic"
	"time"
)

// Permit is the right to have one request in flight. It is ended exactly once;
// ending it again is harmless, so that a deferred End may back up an early one.
// The zero Permit is ended already.
//
// A Permit is a value so that admitting allocates nothing. It may be moved
// before its first End; do not keep two copies, since each would end once. A second
// one that is ended gives back a permit that somebody else holds: one request more may be in
// flight than the limit allows until none is in flight. Then it is found out, told to
// [Options.EndedTwice], counted in [Status.EndedTwice], and nothing of it is left.
type Permit struct {
	spec  *partitionSpec // what it was granted and paid under; nil in the zero Permit
	start int64          // monotonic ns when it was granted
	word  permitWord     // 0 once ended; by atomic operations
	shape *Shape         // of the request; nil = nothing is learned of it
}

// permitWord is what a permit knows besides, in one word: three words travel
// from call to call in registers.
//
//	bits 0-5    permitHeld, permitBare, permitTotal, permitLeft, permitUnpaid, permitCapped
//	bits 6-7    of one that is capped: the term of the culprit, modulo four
//	bits 8-27   permits held in the partition when it was granted, itself included
//	bits 28-47  the same of what the partitions share
//	bits 48-63  the clock's epoch then, modulo 65,536
type permitWord uint64

const (
	permitHeld   permitWord = 1 << iota // always set
	permitBare                          // the gate was off: teach nothing
	permitTotal                         // counted in the gate's total
	permitLeft                          // the caller has gone
	permitUnpaid                        // it passed without tokens: in shadow mode, or as a part of other work
	permitCapped                        // counted among those of a culprit

	termShift  = 6
	permitTerm = permitWord(3) << termShift
	seenShift  = 8
	allShift   = seenShift + heldBits
	epochShift = 48
)

// newPermitWord returns the word of a permit; what it counts is at most maxHeld.
func newPermitWord(epoch uint32, at reservation) permitWord {
	return permitWord(epoch)<<epochShift | permitWord(at.all)<<allShift | permitWord(at.held)<<seenShift | permitHeld
}

// seen returns the permits held in the partition when this one was granted.
func (w permitWord) seen() int { return int(w >> seenShift & maxHeld) }

// seenAll returns the permits of what the partitions share that were held then.
func (w permitWord) seenAll() int { return int(w >> allShift & maxHeld) }

// sameEpoch reports whether the permit was granted in the clock's epoch.
func (w permitWord) sameEpoch(epoch uint32) bool { return uint16(w>>epochShift) == uint16(epoch) }

// take empties the permit and returns what it was, the zero Permit when it was
// ended before.
func (p *Permit) take() Permit {
	word := permitWord(atomic.SwapUint64((*uint64)(&p.word), 0))
	if word == 0 {
		return Permit{}
	}
	return Permit{spec: p.spec, start: p.start, word: word, shape: p.shape}
}

// markLeft notes in the permit that its caller has gone, and reports whether
// that is news: it is held and was not marked before.
func (p *Permit) markLeft() (permitWord, bool) {
	for {
		word := atomic.LoadUint64((*uint64)(&p.word))
		if word == 0 || permitWord(word)&permitLeft != 0 {
			return 0, false
		}
		if atomic.CompareAndSwapUint64((*uint64)(&p.word), word, word|uint64(permitLeft)) {
			return permitWord(word), true
		}
	}
}

// End returns the permit and reports how the work went. Only the first call
// counts; later calls do nothing. It is safe for concurrent use.
func (p *Permit) End(o Outcome) {
	if held := p.take(); held.spec != nil {
		part := held.spec.part
		now := part.gate.clock.Now()
		part.end(now, time.Duration(now-held.start), held, o)
	}
}

// EndSampled is [Permit.End] with a latency that the ingress measured itself,
// for protocols in which the permit is held longer than the backend worked.
func (p *Permit) EndSampled(latency time.Duration, o Outcome) {
	if held := p.take(); held.spec != nil {
		part := held.spec.part
		part.end(part.gate.clock.Now(), latency, held, o)
	}
}

// Charge spends tokens beyond those that admission took, once the real cost of
// the request is known, from the buckets that it was paid to, whatever is in
// force by now. A negative charge refunds, while the permit is held and as far
// as tokens were taken for it. The debt that a charge can leave is bounded; see
// [Bucket.Spend].
func (p *Permit) Charge(tokens float64) {
	if p.spec == nil {
		return
	}
	word := permitWord(atomic.LoadUint64((*uint64)(&p.word)))
	switch {
	case word&permitBare != 0:
	case tokens > 0:
		p.spec.spend(p.spec.part.gate.clock.Now(), tokens)
	case tokens < 0 && word != 0 && word&permitUnpaid == 0:
		p.spec.refund(-tokens)
	}
}

// Partition returns the name of the partition that granted the permit, "" for
// the zero Permit.
func (p *Permit) Partition() string {
	if p.spec == nil {
		return ""
	}
	return p.spec.part.name
}

// Label returns the partition's name as metrics carry it: bounded by the
// configuration, never a client's key.
func (p *Permit) Label() string {
	if p.spec == nil {
		return ""
	}
	return p.spec.part.label
}

// tally counts the permits of one partition in one word, so that granting one is
// a single atomic operation: in the lower bits those held, in the upper ones
// those ever granted. The latter starts again after 1.7e13 permits: five years
// at 100,000 a second. Requests that are never refused could hold more permits
// than the lower bits count; they are then miscounted until enough have ended.
type tally struct{ word atomic.Uint64 }

const (
	heldBits   = 20
	maxHeld    = 1<<heldBits - 1 // more than anyone's limit
	oneHeld    = 1
	oneGranted = 1 << heldBits
)

// held returns the permits held.
func (t *tally) held() int64 { return int64(t.word.Load() & maxHeld) }

// granted returns the permits ever granted.
func (t *tally) granted() uint64 { return t.word.Load() >> heldBits }

// take adds one (oneHeld, with or without oneGranted) unless limit permits are
// held, and returns the permits then held. limit is at most maxHeld.
func (t *tally) take(limit int64, one uint64) (held int64, ok bool) {
	for {
		word := t.word.Load()
		held = int64(word & maxHeld)
		if held >= limit {
			return held, false
		}
		if t.word.CompareAndSwap(word, word+one) {
			return held + 1, true
		}
	}
}

// add adds one whatever is held, and returns the permits then held.
func (t *tally) add(one uint64) int64 { return int64(t.word.Add(one) & maxHeld) }

// release gives one permit back, and reports whether one was held.
func (t *tally) release() bool {
	if t.word.Add(^uint64(oneHeld-1))&maxHeld != maxHeld {
		return true
	}
	t.word.Add(oneHeld) // it took a permit from those ever granted
	return false
}

// Leave notes that the caller has gone while the backend still works on the
// request. The permit stays held until it ends, since the work goes on. Only
// the first call counts; it does nothing once the permit has ended. It is safe
// for concurrent use with [Permit.End]: whichever comes first, a departure that
// was counted is taken back by exactly one End.
//
// A departure is evidence without a latency: the backend has taken at least as
// long as the caller had patience. It is told to a limit that has a method
// Left, see [Limit].
func (p *Permit) Leave() {
	if word, ok := p.markLeft(); ok {
		p.leave(word, time.Duration(p.spec.part.gate.clock.Now()-p.start))
	}
}

// LeaveSampled is [Permit.Leave] with the time that the backend has had the
// request, for requests that the client was slow to send. An age that is not
// positive tells the limit nothing.
func (p *Permit) LeaveSampled(age time.Duration) {
	if word, ok := p.markLeft(); ok {
		p.leave(word, age)
	}
}

// leave counts a departure, and tells the limit of it.
func (p *Permit) leave(word permitWord, age time.Duration) {
	part := p.spec.part
	part.left.Add(1)
	if word&permitTotal != 0 {
		p.spec.common.backend.left.Add(1)
	}
	part.counts.left.Add(1)
	part.marks.set(endMark)
	clock := &part.gate.clock
	if word&permitBare != 0 || age <= 0 || !clock.Trusted() || !word.sameEpoch(clock.Epoch()) {
		return
	}
	now := clock.Now()
	age = min(age, maxLatency)
	if s := part.spec.Load(); !s.is(shared) {
		s.left(now, age, word.seen())
	}
	if c := p.spec.common; c.limit != nil && word&permitTotal != 0 {
		estimate{c.limit}.left(now, age, word.seenAll())
	}
}

// left tells the limit of a caller that has gone, if it wants to know.
func (e estimate) left(now int64, age time.Duration, inFlight int) {
	if l, ok := e.limit.(interface {
		Left(now int64, age time.Duration, inFlight int)
	}); ok {
		l.Left(now, age, inFlight)
	}
}

// grant makes the permit for a place that was taken under s.
func (p *partition) grant(now int64, at reservation, s *partitionSpec, of *Shape) Permit {
	if p.probed.Load() {
		at.held = p.pool().fresh(at.held)
	}
	if s.common.limit != nil && s.common.backend.probed.Load() {
		at.all = s.common.backend.pool().fresh(at.all)
	}
	word := newPermitWord(p.gate.clock.Epoch(), at)
	if s.is(pooled) {
		word |= permitTotal
		b := s.common.backend
		if b.fair.contended(now) {
			b.fair.charge(now, s)
		}
	}
	if of != nil {
		if term, capped := p.dominant.Granted(of); capped {
			word |= permitCapped | permitWord(term)<<termShift
		}
	}
	return Permit{spec: s, start: now, word: word, shape: of}
}

// end releases a permit, teaches the limit and wakes who waits.
func (p *partition) end(now int64, latency time.Duration, permit Permit, o Outcome) {
	p.touched.note(now) // while it is held, refusals may not read the clock
	if !p.tally.release() {
		p.gate.foundEndedTwice(p.name)
		return
	}
	if permit.word&permitLeft != 0 {
		p.left.Add(-1)
		if permit.word&permitTotal != 0 {
			permit.spec.common.backend.left.Add(-1)
		}
		p.counts.wasted.Add(1)
		if o == Success {
			p.counts.unheard.Add(1)
		}
	}
	if permit.word&permitTotal != 0 {
		permit.spec.giveBack()
		if b := permit.spec.common.backend; b.fair.contended(now) {
			b.fair.ended(permit.spec, latency)
		}
	}
	switch o {
	case Success:
		p.counts.busy.Add(int64(min(max(latency, 0), maxLatency)))
	case Ignored:
		p.counts.ignored.Add(1)
		p.marks.set(endMark)
	default:
		p.counts.dropped.Add(1)
		p.marks.set(endMark)
	}
	if permit.spec.ended(now, permit, o) && o != Ignored && permit.word&permitBare == 0 {
		p.learn(now, latency, permit, o)
	}
	if p.asked.since(now) <= 1 {
		p.retrying.ended(latency)
	}
	if p.recorder != nil && latency >= 0 {
		p.recorder.Ended(latency, o)
	}
	if t := p.gate.tracer.Load(); t != nil {
		(*t).Ended(permit.start, now, latency, o)
	}
	if permit.shape != nil {
		p.settle(now, latency, permit, o)
	}
	if s := permit.spec; s.is(witnessed | classed) {
		if s.witness != nil {
			s.witness.Ended(permit.start, now, latency, o)
		}
		s.steered(now)
	}
	if permit.spec.stalled() {
		now = p.gate.clock.Now() // what is granted from here on is granted after the end
	}
	before, line := permit.spec.line(), p.gate.line()
	if line.waiting.Load() > 0 {
		line.next(now, p)
	}
	if before != line && before.waiting.Load() > 0 { // the gate has another backend since
		before.next(now, p)
	}
	const leftTotal = permitLeft | permitTotal
	if permit.word&leftTotal == leftTotal && before.waiting.Load() > 0 { // see mayAbandon
		before.wakeAside(now)
	}
}

// foundEndedTwice counts a permit that was ended a second time by a copy of it, and
// tells of the first.
func (g *Gate) foundEndedTwice(partition string) {
	if g.endedTwice.Add(1) == 1 {
		g.onEndedTwice(partition)
	}
}

// settle notes what a request of a shape took, and charges or refunds what it cost
// more or less than its shape is taken to.
func (p *partition) settle(now int64, latency time.Duration, permit Permit, o Outcome) {
	if permit.word&permitCapped != 0 {
		p.dominant.Released(uint32(permit.word & permitTerm >> termShift))
	}
	if o == Ignored || latency <= 0 {
		return
	}
	s := permit.spec
	latency = min(latency, maxLatency)
	more := p.gate.shapes.Learned(now, permit.shape, latency)
	p.dominant.Ended(now, permit.shape, latency, s.bound())
	switch {
	case permit.word&(permitBare|permitUnpaid) != 0 || s.ingress == nil && s.own == nil:
	case more > 0:
		s.spend(now, more)
	case more < 0:
		s.refund(-more)
	}
}

// learn feeds one latency to the limit, unless it means nothing.
func (p *partition) learn(now int64, latency time.Duration, permit Permit, o Outcome) {
	clock, word := &p.gate.clock, permit.word
	sameEpoch := word.sameEpoch(clock.Epoch())
	if s := clock.sampler; s != nil && sameEpoch {
		s.Sample(latency > 0) // a long one proves nothing: streams and long queries are true
	}
	switch {
	case latency <= 0 || !clock.Trusted():
		p.discard(discardedClock)
		return
	case !sameEpoch:
		p.discard(discardedEpoch)
		return
	}
	latency = min(latency, maxLatency)
	if s := p.spec.Load(); !s.is(shared) {
		s.limit.Observe(now, latency, word.seen(), o == Dropped)
	}
	if c := permit.spec.common; c.limit != nil && word&permitTotal != 0 {
		c.limit.Observe(now, latency, word.seenAll(), o == Dropped)
	}
}

// discard counts a latency that teaches nothing.
func (p *partition) discard(why int) {
	p.counts.discarded[why].Add(1)
	p.marks.set(restMark)
}

// maxLatency is the longest latency that teaches a limit; longer ones are cut to it: a
// backend whose answers take minutes is overloaded or slow, and a limit that hears
// nothing of it stays where it is.
const maxLatency = time.Minute

// Carried tells how many bytes a request moved, which is a part of what its shape
// costs. Without a shape it does nothing.
func (p *Permit) Carried(bytes int64) {
	if p.shape != nil && bytes > 0 {
		p.spec.part.gate.shapes.Carried(p.shape, uint64(bytes))
	}
}

// Stall is a permit whose request waits for its caller, which does not take the
// answer, and not for the backend. The zero Stall is none.
type Stall struct {
	part    *partition
	refused uint64 // for want of a permit, when it began
	total   bool   // it is one of the total too
}

// Stall notes that the permit, which is held, waits for its caller, until
// [Stall.End] is called. It is safe for concurrent use.
func (p *Permit) Stall() Stall {
	if p.spec == nil {
		return Stall{}
	}
	part := p.spec.part
	part.stalled.Add(1)
	return Stall{part: part, refused: part.counts.fates.forPermit((*causeTotal).refused), total: permitWord(atomic.LoadUint64((*uint64)(&p.word)))&permitTotal != 0}
}

// End ends the stall. It is called once.
func (s Stall) End() {
	if s.part != nil {
		s.part.stalled.Add(-1)
	}
}

// Contended reports whether others go without a permit meanwhile: the partition has
// refused somebody for want of one since the stall began, somebody waits, or the total
// is full.
func (s Stall) Contended() bool {
	if s.part == nil {
		return false
	}
	if s.part.queued.Load() > 0 || s.part.counts.fates.forPermit((*causeTotal).refused) > s.refused {
		return true
	}
	full, _ := s.part.spec.Load().commonFull(entry{})
	return s.total && full
}

// Excessive reports whether more permits than half of the partition's limit, and more
// than one, are stalled.
func (s Stall) Excessive() bool {
	return s.part != nil && int64(s.part.stalled.Load()) > max(s.part.spec.Load().bound()/2, 1)
}
