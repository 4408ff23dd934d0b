package limiter

import (
	"sync/atomic"
	"time"
)

// maxLatency is the longest latency that teaches a limit; longer ones are cut
// to it when dropped and discarded otherwise.
const maxLatency = time.Minute

// defaultFallback is the fixed limit used when a policy names none.
const defaultFallback = 20

// The reasons why a latency is not fed to a Limit.
const (
	discardedClock   = iota // zero, negative, or the clock is not trusted
	discardedEpoch          // the machine was suspended meanwhile
	discardedTooLong        // beyond maxLatency
	discardedCount   = iota
	coarseShift      = 30 // monotonic ns >> 30 is about a second
	idleForEviction  = 10 // coarse seconds
)

// partition is a named share of a gate with a limit of its own. The fields that
// every decision touches come first and fill one cache line.
type partition struct {
	tally    tally
	spec     atomic.Pointer[partitionSpec]
	gate     *Gate
	queued   atomic.Int64 // waiters in queue
	recorder Recorder
	touched  atomic.Uint32 // coarse second of the last request or end of one
	left     atomic.Int32  // permits held whose callers have gone

	counts counts
	name   string    // a client's key for dynamic partitions
	label  string    // as metrics carry it: never a client's key (ADR 6)
	queue  []*Ticket // guarded by gate.waitMu, oldest first
	crowd  crowd

	rejections [causeCount]atomic.Pointer[Rejection] // made when first needed
}

// partitionSpec is what a policy says of a partition; replaced as a whole.
type partitionSpec struct {
	limit    Limit
	bucket   *Bucket
	fallback int64
	depth    int           // of the queue
	maxWait  time.Duration // in the queue
	policy   *PartitionPolicy
}

// counts are what the gate counts per partition. They only grow. The path of
// an admitted request pays for none of them, see tally.
type counts struct {
	rejected, wouldReject byCause
	exempted              atomic.Uint64
	gaveUp                atomic.Uint64 // gone while waiting
	left                  atomic.Uint64 // gone while the backend worked
	wasted                atomic.Uint64 // those of them whose work has ended
	dropped, ignored      atomic.Uint64 // ended with that outcome
	discarded             [discardedCount]atomic.Uint64
}

// newPartition returns a partition of the given policy.
func (g *Gate) newPartition(name, label string, policy *PartitionPolicy, now int64) *partition {
	p := &partition{gate: g, name: name, label: label}
	if g.observer != nil {
		p.recorder = g.observer.Recorder(label)
	}
	p.adopt(policy, now)
	return p
}

// adopt puts a policy in force. The limit keeps what it has learned when its
// signature is unchanged, the bucket keeps its tokens.
func (p *partition) adopt(policy *PartitionPolicy, now int64) {
	next := &partitionSpec{
		policy: policy, fallback: int64(policy.Fallback),
		depth: min(policy.QueueDepth, maxQueue), maxWait: policy.MaxWait,
	}
	if next.fallback <= 0 {
		next.fallback = defaultFallback
	}
	if next.maxWait <= 0 {
		next.maxWait = time.Second
	}
	old := p.spec.Load()
	if old != nil && old.policy.Signature == policy.Signature {
		next.limit = old.limit
	} else if policy.NewLimit != nil {
		next.limit = policy.NewLimit()
	} else {
		next.limit = fixed(defaultFallback)
	}
	if l, ok := next.limit.(interface {
		Watch(demand func() (offered, refused uint64))
	}); ok && (old == nil || old.limit != next.limit) {
		l.Watch(p.demand)
	}
	var bucket *Bucket
	if old != nil {
		bucket = old.bucket
	}
	next.bucket = changeRate(bucket, policy.Rate, now)
	p.spec.Store(next)
}

// changeRate returns b at rate r: the same bucket where there is one, so that
// neither its tokens nor its waiters are lost.
func changeRate(b *Bucket, r Rate, now int64) *Bucket {
	switch {
	case !(r.PerSecond > 0):
		return nil
	case b == nil:
		return NewBucket(r, now)
	case b.Rate() != r:
		b.SetRate(r, now)
	}
	return b
}

// limit returns the limit in force: the algorithm's, or the fixed fallback
// while the clock cannot be trusted.
func (p *partition) limit(s *partitionSpec) int64 {
	if !p.gate.clock.Trusted() {
		return s.fallback
	}
	return int64(min(max(s.limit.Current(), 1), maxHeld))
}

// places returns the permits that may be held as far as new requests are
// concerned: the limit in force, or none while too much of it is held for
// callers that have gone.
func (p *partition) places(s *partitionSpec) int64 {
	limit := p.limit(s)
	if !p.mayAbandon(limit) {
		return 0
	}
	return limit
}

// demand returns how many requests asked for a permit, and how many found
// none. Both only grow. Requests refused by a rate asked for none.
func (p *partition) demand() (offered, refused uint64) {
	refused = p.counts.rejected.forPermit()
	return p.tally.granted() + refused, refused + p.counts.wouldReject.forPermit()
}

// touch notes that the partition is in use, at a granularity of a second so
// that the common case is one load.
func (p *partition) touch(now int64) {
	if second := uint32(now >> coarseShift); p.touched.Load() != second {
		p.touched.Store(second)
	}
}

// lastTouch returns a time, in monotonic nanoseconds, that is not after the last
// request; at most about a second before it.
func (p *partition) lastTouch() int64 { return int64(p.touched.Load()) << coarseShift }

// acquire takes a permit when the partition and the gate's total have room,
// and returns the permits then held in the partition; else why there is none.
func (p *partition) acquire(limit, total int64) (held int64, why cause, ok bool) {
	if total == 0 {
		held, ok = p.tally.take(limit, oneHeld|oneGranted)
		return held, fullPartition, ok
	}
	for {
		held, ok = p.tally.take(limit, oneHeld)
		if !ok {
			return held, fullPartition, false
		}
		if p.gate.acquireTotal(total) {
			p.tally.add(oneGranted)
			return held, 0, true
		}
		p.tally.release()
		// Whoever gave a permit of the total back meanwhile found this place
		// taken and woke nobody who waits for it, so it is for us to look again.
		if p.gate.inTotal.Load() >= total {
			return held, fullTotal, false
		}
	}
}

// force takes a permit beyond every limit, for exempt requests and shadow mode.
func (p *partition) force(total int64) (held int64) {
	if total > 0 {
		p.gate.inTotal.Add(1)
	}
	return p.tally.add(oneHeld | oneGranted)
}

// grant makes the permit for a place that was acquired under the given total.
func (p *partition) grant(now, held, total int64) Permit {
	word := newPermitWord(p.gate.clock.Epoch(), held)
	if total > 0 {
		word |= permitTotal
	}
	return Permit{part: p, start: now, word: word}
}

// end releases a permit, teaches the limit and wakes who waits.
func (p *partition) end(now int64, latency time.Duration, permit Permit, o Outcome) {
	p.touch(now) // while it is held, refusals may not read the clock
	if permit.word&permitLeft != 0 {
		p.left.Add(-1)
		p.counts.wasted.Add(1)
	}
	p.tally.release()
	if permit.word&permitTotal != 0 {
		p.gate.inTotal.Add(-1)
	}
	switch o {
	case Success:
	case Ignored:
		p.counts.ignored.Add(1)
	default:
		p.counts.dropped.Add(1)
	}
	if o != Ignored && permit.word&permitBare == 0 {
		p.learn(now, latency, permit.word, o)
	}
	p.crowd.ended(now, latency)
	if p.recorder != nil && latency >= 0 {
		p.recorder.Ended(latency, o)
	}
	if t := p.gate.tracer; t != nil {
		t.Ended(permit.start, now, latency, o)
	}
	if p.gate.waiting.Load() > 0 {
		p.gate.pump(p)
	}
}

// learn feeds one latency to the limit, unless it means nothing.
func (p *partition) learn(now int64, latency time.Duration, word permitWord, o Outcome) {
	clock := &p.gate.clock
	sameEpoch := word.epoch() == clock.Epoch()
	if s := p.gate.sampler; s != nil && sameEpoch {
		s.Sample(latency > 0 && (latency <= maxLatency || o == Dropped))
	}
	switch {
	case latency <= 0 || !clock.Trusted():
		p.counts.discarded[discardedClock].Add(1)
		return
	case !sameEpoch:
		p.counts.discarded[discardedEpoch].Add(1)
		return
	case latency > maxLatency && o == Success:
		p.counts.discarded[discardedTooLong].Add(1)
		return
	}
	p.spec.Load().limit.Observe(now, min(latency, maxLatency), word.seen(), o == Dropped)
}

// reject counts a refusal and returns it.
func (p *partition) reject(why cause) *Rejection {
	p.counts.rejected[why].Add(1)
	if r := p.rejections[why].Load(); r != nil {
		return r
	}
	c := Causes()[why]
	p.rejections[why].CompareAndSwap(nil, &Rejection{Reason: c.Reason, Limit: c.Limit, Ingress: p.gate.name, Partition: p.name, part: p})
	return p.rejections[why].Load()
}

// fixed is the limit of a policy that names none.
type fixed int

// Current implements [Limit].
func (f fixed) Current() int { return int(f) }

// Observe implements [Limit].
func (fixed) Observe(int64, time.Duration, int, bool) {}

// Algorithm names the limit for operators.
func (fixed) Algorithm() string { return "fixed" }
