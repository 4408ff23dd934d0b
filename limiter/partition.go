package limiter

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter/bucket"
	"github.com/admitd/admitd/limiter/shape"
	"github.com/admitd/admitd/limiter/shed"
)

// Times of a partition.
const (
	coarseShift     = 30 // monotonic ns >> 30 is about a second
	idleForEviction = 10 // coarse seconds
)

// partition is a named share of a gate with a limit of its own. What every request
// touches comes first, the count of busy time included, and lies on one cache line
// (TestOneLine): an object of this size begins one word behind the line's first.
type partition struct {
	tally   tally
	spec    atomic.Pointer[partitionSpec] // in force
	gate    *Gate
	queued  atomic.Int32 // tickets
	touched lastUse      // the last request or end of one
	asked   lastUse      // the last time that somebody wanted to know how long a permit is held
	left    atomic.Int32 // permits held whose callers have gone
	probed  atomic.Bool  // the backend answers nothing of what is held, or did not of late; see prober
	marks   countBits    // where counts are other than 0

	counts counts

	recorder Recorder
	waits    waitRecorder // the recorder, when it wants to hear of waits; nil
	prober
	stalled atomic.Int32 // permits held whose callers do not take the answer
	identity
	retrying retryCrowd
	shed     shed.Shedder // of the partition's own limit
	dominant shape.Dominant

	lanes classQueues // who waits, by class
	share share       // what it was given of what all share
}

// identity is who a partition is.
type identity struct {
	name   string // a client's key for dynamic partitions
	label  string // as metrics carry it: never a client's key (ADR 6)
	hash   uint64 // of the name, the same in every gate
	number uint32 // among those that exist, see [Brief]
}

// isDynamic reports whether the partition stands for a client's key.
func (id *identity) isDynamic() bool {
	return id.label == DefaultPartition && id.name != DefaultPartition
}

// lastUse is the coarse second in which something was used last.
type lastUse struct{ second atomic.Uint32 }

// note notes a use, at a granularity of a second so that the common case is one
// load.
func (u *lastUse) note(now int64) {
	if second := uint32(now >> coarseShift); u.second.Load() != second {
		u.second.Store(second)
	}
}

// at returns a time, in monotonic nanoseconds, that is not after the last use; at
// most about a second before it.
func (u *lastUse) at() int64 { return int64(u.second.Load()) << coarseShift }

// since returns the coarse seconds from the last use to now; less than 0 when others
// used it after now was read.
func (u *lastUse) since(now int64) int32 { return int32(uint32(now>>coarseShift) - u.second.Load()) }

// partitionSpec is what one policy says of a partition, and all that a request
// in it is decided by. It never changes: a reload makes another. It is two cache
// lines, of which a request that has nothing special reads the first.
type partitionSpec struct {
	part *partition
	traits
	mode Mode
	bucketSet
	estimate
	common *common // what all partitions share
	classOrder

	fallback int64
	depth    int           // of the queue
	maxWait  time.Duration // in the queue
	policy   *PartitionPolicy
	witness  Witness // nil = nobody
}

// traits are what is special about the requests of a partition, so that one look
// tells where nothing is.
type traits uint16

const (
	lenient   traits = 1 << iota // nothing is refused: the mode is another than Enforce
	blocked                      // everything is
	classed                      // there are classes, and a line
	witnessed                    // somebody is told of every decision
	pooled                       // there is a bound over all partitions
	shared                       // the limit is that of all partitions: there is none of its own
	fleet                        // the limit is that of all gates
	portioned                    // the partition may hold a share of the bound over all
	bounded                      // it has a bound of its own besides the limit
	queueing                     // who finds no permit may wait
	auto                         // the queue sizes itself
	probing                      // permits are lent to find out when a backend that answers nothing does again
)

// is reports whether one of some traits is there.
func (t traits) is(some traits) bool { return t&some != 0 }

// traitsOf returns what is special about a partition under a policy.
func traitsOf(t *policyTable, policy *PartitionPolicy, limit Limit) (all traits) {
	far, _ := limit.(interface{ Shared() bool })
	for _, row := range [...]struct {
		there bool
		traits
	}{
		{t.policy.Mode != Enforce, lenient},
		{policy.Blocked, blocked},
		{t.policy.Classes != nil, classed},
		{t.policy.Witness != nil, witnessed},
		{t.common.limit != nil || t.common.total > 0, pooled},
		{t.common.covers(t.policy, policy), shared},
		{far != nil && far.Shared(), fleet},
		{policy.MaxShare > 0 && (t.common.limit != nil || t.common.total > 0), portioned | bounded},
		{policy.MaxInFlight > 0, bounded},
		{policy.QueueAuto || policy.QueueDepth > 0, queueing},
		{policy.QueueAuto, auto},
		{t.policy.Probe && t.policy.Mode == Enforce, probing},
	} {
		if row.there {
			all |= row.traits
		}
	}
	return all
}

// newPartition returns a partition that has yet to adopt a policy.
func newPartition(g *Gate, name, label string, o Observer) *partition {
	p := &partition{gate: g, identity: identity{name, label, shed.Hash(name), g.partitions.numbers.take()}}
	if o != nil {
		p.recorder = o.Recorder(label)
		p.waits, _ = p.recorder.(waitRecorder)
	}
	return p
}

// adopt puts a policy of the given table in force. The limit keeps what it has
// learned when its signature is unchanged, the bucket keeps its tokens.
func (p *partition) adopt(t *policyTable, policy *PartitionPolicy, now int64) *partitionSpec {
	old := p.spec.Load()
	if old == nil {
		old = &partitionSpec{}
	}
	next := newSpec(p, t, policy)
	next.bucketSet = bucketSet{ingress: t.bucket, own: bucket.Change(old.own, policy.Rate, now)}
	switch {
	case t.common.covers(t.policy, policy):
		next.limit = t.common.limit
	case old.limit != nil && !old.is(shared) && old.policy.Signature == policy.Signature:
		next.limit = old.limit
	default:
		p.learnAnew(next, old.estimate)
	}
	next.traits = traitsOf(t, policy, next.limit)
	switch {
	case !next.is(classed):
	case next.is(pooled):
		next.shed = &t.common.backend.shed
	default:
		next.shed = &p.shed
	}
	p.spec.Store(next)
	return next
}

// newSpec returns what the policy of a table says of a partition, without its
// bucketSet and its limit.
func newSpec(p *partition, t *policyTable, policy *PartitionPolicy) *partitionSpec {
	s := &partitionSpec{
		part: p, policy: policy, common: t.common, mode: t.policy.Mode, fallback: int64(policy.Fallback),
		depth: min(policy.QueueDepth, maxQueue), maxWait: min(policy.MaxWait, longestWait), witness: t.policy.Witness, classOrder: classOrder{classes: t.policy.Classes},
	}
	if t.common.covers(t.policy, policy) {
		s.fallback = t.common.fallback
	}
	if s.fallback <= 0 {
		s.fallback = defaultFallback
	}
	if s.maxWait <= 0 {
		s.maxWait = time.Second
	}
	return s
}

// learnAnew gives the partition a new limit, which begins with what the one before
// it knew of the backend, if there was one.
func (p *partition) learnAnew(s *partitionSpec, before estimate) {
	s.limit = newLimit(s.policy)
	s.recall(before, p)
	s.watch(p.demand)
}

// covers reports whether a partition has no limit but the common one.
func (c *common) covers(whole *Policy, policy *PartitionPolicy) bool {
	return c.limit != nil && (whole.Shared || policy.NewLimit == nil)
}

// demand returns how many requests asked for a permit, and how many found
// none. Both only grow. Requests refused by a rate asked for none.
func (p *partition) demand() (offered, refused uint64) {
	refused = p.counts.fates.forPermit((*causeTotal).refused) + p.counts.unserved.Load()
	return p.tally.granted() + refused, refused + p.counts.fates.forPermit((*causeTotal).passed)
}

// waited notes how long an admitted request waited in the gate.
func (p *partition) waited(d time.Duration) {
	d = max(d, 0)
	p.counts.waits.Add(1)
	p.counts.waiting.Add(int64(d))
	p.marks.set(endMark)
	if p.waits != nil {
		p.waits.Waited(d)
	}
}

// place is what was taken for a request: the permits then held in the partition, and
// of what the partitions share, itself included.
type reservation struct{ held, all int64 }

// acquire takes a permit when the partition and what all share have room; else why
// says what has none.
func (p *partition) acquire(s *partitionSpec, limit int64, e entry) (at reservation, why cause, ok bool) {
	if !s.is(pooled) {
		at.held, ok = p.tally.take(limit, oneHeld|oneGranted)
		return at, fullPartition, ok
	}
	for {
		at.held, ok = p.tally.take(limit, oneHeld)
		if !ok {
			return at, fullPartition, false
		}
		if at.all, ok = s.takeCommon(e); ok {
			p.tally.add(oneGranted)
			return at, admitted, true
		}
		p.tally.release()
		// Whoever gave a permit of the total back meanwhile found this place
		// taken and woke nobody who waits for it, so it is for us to look again.
		if full, _ := s.commonFull(e); full {
			return at, fullTotal, false
		}
	}
}

// enter takes a permit for a request that has waited: as acquire does, and
// always when the policy has stopped to refuse meanwhile.
func (p *partition) enter(s *partitionSpec, e entry) (at reservation, why cause, ok bool) {
	if s.is(lenient) {
		return p.force(s), admitted, true
	}
	return p.acquire(s, s.reach(s.places(), e), e)
}

// stepBack ends an attempt to acquire that failed for the given reason. Who
// joined the queue while it held its place of the partition may have found that
// taken, and stepped aside for nothing; so may who found its place of the gate's total
// taken, while it was the backend that had none.
func (p *partition) undoAcquire(now int64, why cause) {
	if why != fullTotal {
		return
	}
	again := p.queued.Load() > 0
	if !again && p.gate.foremost.Load() != 0 {
		_, ofGate := p.spec.Load().commonFull(entry{})
		again = !ofGate
	}
	if again {
		p.gate.line().next(now, p)
	}
}

// force takes a permit beyond every limit, for exempt requests and shadow mode.
func (p *partition) force(s *partitionSpec) (at reservation) {
	at.held = p.tally.add(oneHeld | oneGranted)
	if s.is(pooled) {
		at.all = s.forceCommon()
	}
	return at
}

// line returns where the requests of the partition wait.
func (s *partitionSpec) line() *waitQueue { return &s.common.backend.line }

// late returns why a request waited in vain.
func (p *partition) late() cause {
	s := p.spec.Load()
	if s.is(pooled) && p.tally.held() < s.places() {
		return lateTotal // the partition itself had room
	}
	return latePartition
}
