package limiter

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/labels"
)

// ErrRejected is matched by every [*Rejection].
var ErrRejected = errors.New("limiter: rejected")

// Rejection is the error returned when a request is refused before any of its
// work ran. It matches [ErrRejected]. Rejections are shared: one exists per
// partition and cause, so that refusing allocates nothing (ADR 2). They never
// change.
type Rejection struct {
	Reason    labels.Reason
	Limit     labels.Limit // whose limit it was that refused
	Ingress   string       // name of the gate
	Partition string       // name of the partition that refused, never empty; clients' keys appear as they are

	part *partition
}

// Error implements error.
func (r *Rejection) Error() string {
	return "limiter: " + string(r.Reason) + " of the " + string(r.Limit) + " in partition " + r.Partition + " of " + r.Ingress
}

// HasErrorLabel reports what an error label says of the rejection, so that a client
// with a retry policy knows what it allows.
func (r *Rejection) HasErrorLabel(label string) bool {
	switch label {
	case labels.SystemOverloaded, labels.NoWritesPerformed:
		return r != nil
	case labels.Retryable:
		return r != nil && r.Reason.Retryable()
	}
	return false
}

// RetryHint is [Rejection.Hint] for a request of which nothing is known. Each call
// stands for one request that was refused.
func (r *Rejection) RetryHint() (retryAfter, baseBackoff time.Duration) {
	if r == nil {
		return 0, 0
	}
	h := r.Hint(Request{})
	return h.RetryAfter, h.BaseBackoff
}

// Is makes every Rejection match [ErrRejected].
func (r *Rejection) Is(target error) bool { return target == ErrRejected }

// Hint is advice to a refused client.
type Hint struct {
	// RetryAfter is when a retry may succeed, jittered so that clients that
	// were refused together do not return together. 0 = unknown.
	RetryAfter time.Duration
	// BaseBackoff is the base of the client's exponential backoff: when the
	// capacity will have room for it, after those who were refused before it.
	// 0 = the client's own.
	BaseBackoff time.Duration
}

// Document returns the wire form of the rejection of the given request. Without
// hints the two waits are left out.
func (r *Rejection) Document(req Request, hints bool) labels.Document {
	d := labels.New(r.Reason, r.Ingress, r.Partition)
	d.Limit = r.Limit
	d.Class = r.Class(req.Class)
	if hints {
		d.RetryAfterMS, d.BaseBackoffMS = r.Hint(req).Milliseconds()
	}
	return d
}

// Milliseconds returns both waits rounded up to whole milliseconds, so that none
// is cut short.
func (h Hint) Milliseconds() (retryAfter, baseBackoff int64) {
	return ceilMS(h.RetryAfter), ceilMS(h.BaseBackoff)
}

// Class words the class of a refused request, "" where there are no classes.
func (r *Rejection) Class(c labels.Class) string {
	if r.part == nil {
		return ""
	}
	if classes := r.part.spec.Load().classes; classes != nil {
		return classes.rank(c).Class().String()
	}
	return ""
}

// ceilMS rounds up to whole milliseconds.
func ceilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// unserved tells the limits of a caller that gave up while it waited for a permit: the
// demand was there, and is met as little as by a refusal.
func (s *partitionSpec) unserved(now int64) {
	s.part.counts.unserved.Add(1)
	if c := s.common; c.limit != nil {
		c.backend.refused.Add(1)
		c.backend.fair.refused(now, s)
	}
}

// reject counts a refusal and returns it.
func (s *partitionSpec) reject(why cause) *Rejection {
	p := s.part
	if c := s.common; c.limit != nil && (s.is(shared) && why >= fullPartition || why == fullTotal || why == lateTotal) && why <= shedTotal {
		c.backend.refused.Add(1)
	}
	why = s.named(why)
	f := &p.counts.fates[why]
	f.rejected.Add(1)
	if r := f.told.Load(); r != nil {
		return r
	}
	p.marks.set(1 << why)
	c := Causes()[why]
	f.told.CompareAndSwap(nil, &Rejection{Reason: c.Reason, Limit: c.Limit, Ingress: p.gate.name, Partition: p.name, part: p})
	return f.told.Load()
}

// named returns the cause that stands for why where the limit is that of several
// gates.
func (s *partitionSpec) named(why cause) cause {
	if !s.is(fleet) {
		return why
	}
	full, late := fullPartition, latePartition
	if s.is(shared) && s.common.total == 0 { // the one limit of all partitions is what lies above theirs
		full, late = fullTotal, lateTotal
	}
	switch why {
	case full:
		return fullFleet
	case late:
		return lateFleet
	default:
		return why
	}
}

// Bounds of hints.
const (
	minRetryAfter  = time.Millisecond
	maxRetryAfter  = 30 * time.Second
	minBaseBackoff = time.Millisecond
	maxBaseBackoff = 5 * time.Second // drivers double it twice, and cap at 10 s
	// elsewhere bounds the base where other gates may be idle: it is what drivers
	// start from by themselves.
	elsewhere = 100 * time.Millisecond
	// A client doubles the base before its first retry and its second, so that a
	// quarter of its deadline leaves time for both.
	deadlineShare = 4
)

// Hint computes when the refused request may be tried again. The base of the
// backoff is the slot that the request gets among those who were refused and
// have not come back yet, as far apart as the capacity allows that it lacked.
// It stays below a quarter of the caller's deadline, and small where clients may
// turn to other gates. The wait is near that base, and at least the time until
// there are tokens. At their bounds both are spread downwards.
func (r *Rejection) Hint(req Request) Hint {
	if r.part == nil || r.Reason == labels.CostExceedsBurst {
		return Hint{}
	}
	p, g := r.part, r.part.gate
	now := g.clock.Now()
	wait, pace := r.lack(now, &req)
	most := maxBaseBackoff
	if g.partitions.table.Load().policy.Gates > 1 {
		most = elsewhere
	}
	if req.Deadline > 0 {
		most = min(most, req.Deadline/deadlineShare)
	}
	p.asked.note(now)
	base := g.dice.spread(p.retrying.join(now, pace), most, 8)
	// Half the base to one and a half: as long as a driver sleeps on average.
	after := time.Duration(float64(base) * (0.5 + g.dice.fraction()))
	after = g.dice.spread(max(after, wait), maxRetryAfter, 2)
	g.lastHint.Store(int64(max(after, minRetryAfter)))
	return Hint{RetryAfter: max(after, minRetryAfter), BaseBackoff: max(base, minBaseBackoff)}
}

// dice returns uniform 64-bit values.
type randomSource func() uint64

// spread returns d, or where that reaches most a random value below most, by
// at most its nth part.
func (roll randomSource) spread(d, most time.Duration, n float64) time.Duration {
	if d < most {
		return d
	}
	return time.Duration(float64(most) * (1 - roll.fraction()/n))
}

// lack returns how long until the tokens of the refused request are there, and
// the pace at which the capacity that it lacked serves such requests. What is
// the gate's is shared by the partitions that lack it.
func (r *Rejection) lack(now int64, req *Request) (wait time.Duration, _ pace) {
	p := r.part
	spec := p.spec.Load()
	sharers := 1.0
	if r.Limit != labels.ByPartition {
		sharers = p.gate.census.sharers(now, p)
	}
	if r.Reason != labels.RequestRate {
		limit := p.limit(spec)
		if r.Limit == labels.ByTotal {
			limit = spec.whole()
		}
		return 0, pace{sharers * p.retrying.held() / float64(max(limit, 1)), permitShare}
	}
	b := spec.own
	if r.Limit == labels.ByIngress || r.Limit == labels.ByFleet && spec.ingress.Rate().Sharers > 0 && !(b.Rate().Sharers > 0 && b.Wait(now, req.cost()) > 0) {
		b = spec.ingress
	}
	if b == nil { // the rate was lifted meanwhile
		return 0, pace{1, rateShare}
	}
	// A retry needs the tokens of both buckets, whichever was empty.
	wait = max(spec.ingress.Wait(now, req.cost()), spec.own.Wait(now, req.cost()))
	returns := minReturns * req.cost() / b.Burst()
	return wait, pace{sharers * req.cost() * b.Each(), min(max(returns, rateShare), maxShare)}
}

// fraction returns a uniform value in [0, 1).
func (roll randomSource) fraction() float64 { return float64(roll()>>11) / (1 << 53) }

// How the base of the clients' backoff follows the overload.
const (
	// rateShare of a rate is for those who come back. Who comes back takes all
	// tokens that have gathered meanwhile, so the next one finds the bucket empty
	// with about this probability, and three attempts fail with its cube.
	rateShare = 0.3
	// minReturns come back, on average, in the time that fills the bucket: fewer,
	// and tokens overflow while everybody sleeps.
	minReturns = 3.5
	// maxShare bounds what a small bucket makes of that.
	maxShare = 1.5
	// permitShare of a limit's throughput is for those who come back. Clients
	// that were just answered take the place that they left, so one that returns
	// finds it taken most of the time. What keeps operations from failing is
	// that few have to return.
	permitShare = 0.06
	// calmAfter is how long everybody may have come back before an overload is
	// over.
	calmAfter = int64(time.Second)
	// holdWeight is the weight of the newest permit in the time one is held.
	holdWeight = 0.05
	// holdAssumed stands until a permit has ended.
	holdAssumed = 100 * time.Millisecond
)

// crowd is who was refused by one partition and is to come back. It keeps two
// lines of slots that exist only as the times when they end: one in which slots
// are as far apart as the capacity allows, which is what a burst needs to
// drain, and one in which they are as far apart as a share of the capacity
// allows, which is what keeps clients apart that come back for ever.
//
// Neither knows the throughput. Sleeping lowers that, and a wait that follows
// it grows by itself until everybody sleeps (ADR 12).
type retryCrowd struct {
	mu    sync.Mutex // guards the fields below; never held across a wait
	since int64      // monotonic ns when the present overload began
	soon  int64      // monotonic ns at which the dense line ends
	later int64      // monotonic ns at which the sparse line ends; 0 = nobody was refused yet

	counted atomic.Int64  // coarse second after the one in which the census counted this crowd; 0 = never
	hold    atomic.Uint64 // float64 bits: ns that a permit is held, moving average; 0 = unknown
}

// pace is what a refused request asks of the capacity that it lacked.
type pace struct {
	each  float64 // ns of the partition's capacity that the request needs, > 0
	share float64 // of the capacity is for those who come back, > 0
}

// join gives away the next slot of each line as of now and returns the base
// that makes the mean of a driver's first backoff end there: the dense line's,
// or the sparse line's as far as the overload has lasted that long already.
func (c *retryCrowd) join(now int64, p pace) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.later == 0 || now-c.later > calmAfter || now < c.since {
		c.since, c.soon, c.later = now, now, now
	}
	limit := now + int64(maxBaseBackoff)
	c.soon = min(max(c.soon, now)+int64(min(p.each/max(p.share, 1), float64(maxBaseBackoff))), limit)
	c.later = min(max(c.later, now)+int64(min(p.each/p.share, float64(maxBaseBackoff))), limit)
	return time.Duration(max(c.soon-now, min(c.later-now, now-c.since)))
}

// ended notes how long a permit was held, while there is somebody to tell (see
// partition.asked). An update that another one overtakes is lost.
func (c *retryCrowd) ended(latency time.Duration) {
	if latency <= 0 {
		return
	}
	old := c.hold.Load()
	hold := float64(min(latency, maxLatency))
	if mean := math.Float64frombits(old); mean > 0 {
		hold = mean + holdWeight*(hold-mean)
	}
	c.hold.CompareAndSwap(old, math.Float64bits(hold))
}

// held returns for how long a permit is held, in ns, > 0.
func (c *retryCrowd) held() float64 {
	if hold := math.Float64frombits(c.hold.Load()); hold > 0 {
		return hold
	}
	return float64(holdAssumed)
}

// census counts the partitions that refuse for lack of what the gate's
// partitions share.
type refusingPartitions struct {
	mu             sync.Mutex // guards the fields below; never held across a wait
	second         int64      // coarse second that recent counts
	before, recent int64

	sharing atomic.Int64 // the greater of the two
}

// sharers returns how many partitions share the capacity that p lacked, each an
// equal part. It counts p once in each coarse second.
func (c *refusingPartitions) sharers(now int64, p *partition) float64 {
	second := now >> coarseShift
	if p.retrying.counted.Swap(second+1) == second+1 {
		return float64(max(c.sharing.Load(), 1))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if second != c.second {
		c.before = 0
		if second == c.second+1 {
			c.before = c.recent
		}
		c.second, c.recent = second, 0
	}
	c.recent++
	c.sharing.Store(max(c.before, c.recent))
	return float64(c.sharing.Load())
}
