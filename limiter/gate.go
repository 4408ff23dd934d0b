package limiter

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the collaborators of a [Gate]. The zero value works.
type Options struct {
	// Clock is where the gate reads the time; nil = the monotonic clock.
	Clock Clock
	// Observer records latencies; nil = nobody does.
	Observer Observer
	// Tracer is told of every request and of every permit that ends; nil =
	// nobody is.
	Tracer Tracer
	// Rand returns uniform 64-bit values for the jitter of hints; nil =
	// math/rand/v2. It must be safe for concurrent use.
	Rand func() uint64
}

// Gate admits or rejects the requests of one ingress: first by rate, then by
// concurrency. It is safe for concurrent use.
type Gate struct {
	table    atomic.Pointer[table]
	waiting  atomic.Int64 // tickets in all queues
	draining atomic.Bool
	clock    timekeeper
	tracer   Tracer
	sampler  sampler // nil when the clock wants to hear of no samples
	observer Observer
	rand     func() uint64
	name     string

	_        [64]byte     // keeps what changes all the time off the lines that every request reads
	inTotal  atomic.Int64 // permits over all partitions, counted while there is a total
	lastHint atomic.Int64 // ns that the last refused request was told to wait
	census   census

	waitMu sync.Mutex   // guards the queues of all partitions and busy; never held across a wait
	busy   []*partition // partitions with a queue

	mu           sync.Mutex // guards changes of table, and the fields below; never held across a wait
	evictAt      int64      // monotonic ns before which no eviction is tried
	retired      []retired
	gone         counts // of dynamic partitions that exist no more
	goneAdmitted uint64
}

// sampler is a clock that judges itself by the latencies measured with it.
type sampler interface{ Sample(ok bool) }

// New returns a gate that enforces p. The name appears in rejections.
func New(name string, p *Policy, o Options) *Gate {
	g := &Gate{
		name: name, clock: timekeeper{given: o.Clock, base: time.Now()},
		observer: o.Observer, tracer: o.Tracer, rand: o.Rand,
	}
	g.sampler, _ = o.Clock.(sampler)
	if g.rand == nil {
		g.rand = rand.Uint64
	}
	g.Apply(p)
	return g
}

// Name returns the gate's name.
func (g *Gate) Name() string { return g.name }

// Now reads the gate's clock: monotonic nanoseconds.
func (g *Gate) Now() int64 { return g.clock.Now() }

// Drain makes the gate refuse every request from now on with reason draining.
// Permits in flight and requests that wait already are not touched.
func (g *Gate) Drain() { g.draining.Store(true) }

// Admit decides about one request, waiting in the queues that the policy
// allows. The error is a [*Rejection], or ctx.Err() when the caller went away
// while it waited. On success the caller ends the permit.
func (g *Gate) Admit(ctx context.Context, req Request) (Permit, error) {
	permit, ticket, err := g.offer(unread, &req)
	if ticket == nil {
		return permit, err
	}
	return ticket.Wait(ctx)
}

// TryAdmit is [Gate.Admit] as of now (monotonic nanoseconds) for callers that
// cannot wait. The error is always a [*Rejection].
func (g *Gate) TryAdmit(now int64, req Request) (Permit, error) {
	req.MaxWait = -1
	permit, _, err := g.offer(now, &req)
	return permit, err
}

// Offer is [Gate.Admit] for event-driven callers: instead of waiting it returns
// a [Ticket] when the request has to wait. Permit, ticket and error exclude
// each other.
func (g *Gate) Offer(now int64, req Request) (Permit, *Ticket, error) {
	return g.offer(now, &req)
}

// unread stands for the present where nobody has read the clock yet.
const unread = math.MinInt64

// at returns now, reading the clock when that was not done yet.
func (g *Gate) at(now int64) int64 {
	if now == unread {
		return g.clock.Now()
	}
	return now
}

// offer spends the request's tokens and then asks for a permit. It reads the
// clock, when now is unread, as late as it can: a clock reading costs as much
// as the rest of a refusal.
func (g *Gate) offer(now int64, req *Request) (Permit, *Ticket, error) {
	if g.tracer != nil {
		now = g.at(now)
		g.tracer.Offered(now, req.Key, req.cost())
	}
	t := g.table.Load()
	p := t.lookup(req.Key)
	if p == nil {
		now = g.at(now)
		p = g.admitKey(now, req.Key)
	}
	if t.policy.Mode != Enforce || req.Exempt {
		now = g.at(now)
		p.touch(now)
		return g.pass(now, t, p, req), nil, nil
	}
	if g.draining.Load() {
		return Permit{}, nil, p.reject(drainingIngress)
	}
	spec := p.spec.Load()
	limit := p.places(spec)
	full := p.tally.held() >= limit && spec.mustRefuse(req)
	if full && now == unread && t.holds(p.lastTouch(), spec, req) {
		return Permit{}, nil, p.reject(fullPartition)
	}
	now = g.at(now)
	p.touch(now)
	if full && t.holds(now, spec, req) {
		return Permit{}, nil, p.reject(fullPartition)
	}
	if (t.bucket != nil || spec.bucket != nil) && !takeBoth(now, t.bucket, spec.bucket, req.cost()) {
		debts, why, ok := g.spend(now, t, spec, req)
		if !ok {
			return Permit{}, nil, p.reject(why)
		}
		if debts != (debtsOwed{}) {
			ticket := &Ticket{part: p, table: t, req: *req, ready: make(chan struct{})}
			ticket.owe(now, spec, debts)
			return Permit{}, ticket, nil
		}
	}
	why := fullPartition
	if p.queued.Load() == 0 { // who waits goes first
		held, full, ok := p.acquire(limit, t.total)
		if ok {
			return p.grant(now, held, t.total), nil, nil
		}
		why = full
	}
	return p.queueOrRefuse(now, t, req, nil, why)
}

// holds reports whether the request's tokens are there at now, in the gate's
// bucket and the partition's. Those that were there earlier and are not spent
// still are, so an earlier now than the present one may stand for it where only
// a true answer is acted upon.
func (t *table) holds(now int64, spec *partitionSpec, req *Request) bool {
	return t.bucket.holds(now, req) && spec.bucket.holds(now, req)
}

// mustRefuse reports that a request that finds no permit could only be refused,
// so that a flood is refused by reading alone, without spending tokens and
// giving them back.
func (s *partitionSpec) mustRefuse(req *Request) bool {
	return s.depth == 0 || req.MaxWait < 0
}

// queueOrRefuse queues a request that found no permit: on the ticket that it
// already waits with, or on a new one. A refusal gives the tokens back: no work
// ran (ADR 1).
func (p *partition) queueOrRefuse(now int64, t *table, req *Request, ticket *Ticket, why cause) (Permit, *Ticket, error) {
	spec := p.spec.Load()
	if !spec.mustRefuse(req) {
		if ticket == nil {
			ticket = &Ticket{part: p, table: t, req: *req, paid: [2]*Bucket{t.bucket, spec.bucket}, ready: make(chan struct{})}
		}
		if ticket.enqueue(now, spec) {
			return Permit{}, ticket, nil
		}
	}
	if ticket != nil {
		ticket.refund()
	} else {
		t.bucket.Refund(req.cost())
		spec.bucket.Refund(req.cost())
	}
	return Permit{}, nil, p.reject(why)
}

// pass lets a request through whatever the limits say, and counts what they
// would have said.
func (g *Gate) pass(now int64, t *table, p *partition, req *Request) Permit {
	if t.policy.Mode == Off {
		permit := p.grant(now, p.force(t.total), t.total)
		permit.word |= permitBare
		return permit
	}
	spec := p.spec.Load()
	if req.Exempt {
		p.counts.exempted.Add(1)
		t.bucket.Spend(now, req.cost())
		spec.bucket.Spend(now, req.cost())
		return p.grant(now, p.force(t.total), t.total)
	}
	req.MaxWait = -1
	if _, why, ok := g.spend(now, t, spec, req); !ok {
		p.counts.wouldReject[why].Add(1)
		return p.grant(now, p.force(t.total), t.total)
	}
	held, why, ok := p.acquire(p.places(spec), t.total)
	if !ok {
		t.bucket.Refund(req.cost()) // as the refusal would
		spec.bucket.Refund(req.cost())
		p.counts.wouldReject[why].Add(1)
		held = p.force(t.total)
	}
	return p.grant(now, held, t.total)
}

// spend takes the request's tokens from the gate's and the partition's bucket,
// from both or from none, and returns what is owed to them.
func (g *Gate) spend(now int64, t *table, spec *partitionSpec, req *Request) (debts debtsOwed, why cause, ok bool) {
	cost := req.cost()
	switch {
	case cost > t.bucket.Burst():
		return debts, costOfIngress, false
	case cost > spec.bucket.Burst():
		return debts, costOfPartition, false
	}
	first, ok := t.bucket.pay(now, cost, t.policy.Rate.QueueDepth, req.MaxWait >= 0)
	if !ok {
		return debts, rateOfIngress, false
	}
	second, ok := spec.bucket.pay(now, cost, spec.policy.Rate.QueueDepth, req.MaxWait >= 0)
	if !ok {
		t.bucket.repay(cost, first)
		return debts, rateOfPartition, false
	}
	if req.MaxWait > 0 && max(first, second) > req.MaxWait {
		t.bucket.repay(cost, first)
		spec.bucket.repay(cost, second)
		if first > second {
			return debts, rateOfIngress, false
		}
		return debts, rateOfPartition, false
	}
	return debtsOwed{first, second}, 0, true
}

// takeBoth takes n tokens from each bucket, or from neither. It is the way of
// nearly every request.
func takeBoth(now int64, a, b *Bucket, n float64) bool {
	if _, ok := a.Take(now, n); !ok {
		return false
	}
	if _, ok := b.Take(now, n); !ok {
		a.Refund(n)
		return false
	}
	return true
}

// debtsOwed is how long a request has to wait until its debts with the gate's
// and the partition's bucket are paid.
type debtsOwed [2]time.Duration

// pay takes n tokens, on credit when the queue has room and waiting is allowed.
// A positive wait is a debt, with a place among the bucket's waiters.
func (b *Bucket) pay(now int64, n float64, depth int, mayWait bool) (wait time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	if wait, ok = b.Take(now, n); ok || depth <= 0 || !mayWait {
		return wait, ok
	}
	if b.waiting.Add(1) > int64(depth) {
		b.waiting.Add(-1)
		return 0, false
	}
	if wait, ok = b.Borrow(now, n, maxBurst); !ok || wait == 0 {
		b.waiting.Add(-1)
	}
	return wait, ok
}

// repay returns n tokens that pay took, and the place that came with a debt.
func (b *Bucket) repay(n float64, debt time.Duration) {
	b.Refund(n)
	if debt > 0 {
		b.waiting.Add(-1)
	}
}

// acquireTotal takes one permit of the gate's total.
func (g *Gate) acquireTotal(total int64) bool {
	for {
		n := g.inTotal.Load()
		if n >= total {
			return false
		}
		if g.inTotal.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Rate returns the rate that binds a partition's requests: its own, or the
// gate's where it has none. The zero Rate = unlimited.
func (g *Gate) Rate(name string) Rate {
	t := g.table.Load()
	p := t.byName(name)
	if p == nil {
		p = t.lookup(name)
	}
	if p != nil {
		if r := p.spec.Load().bucket.Rate(); r.PerSecond > 0 {
			return r
		}
	}
	return t.bucket.Rate()
}
