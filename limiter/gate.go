package limiter

import (
	"context"
	"log"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/admitd/admitd/limiter/shape"
)

// Gate admits or rejects the requests of one ingress: first by rate, then by
// concurrency. It is safe for concurrent use.
type Gate struct {
	partitions partitionTable // who is a partition
	draining   atomic.Bool
	clock      gateClock
	tracer     atomic.Pointer[Tracer] // nil = nobody is told
	dice       randomSource
	name       string

	own      Backend          // where the policy names none
	_        [64]byte         // keeps what changes all the time off the lines that every request reads
	held     atomic.Int64     // permits over all partitions, counted while there is a total
	queued   atomic.Int64     // tickets
	foremost atomic.Int32     // as of the line, of those that wait for the total
	blocked  [ranks]classHeap // lanes that wait for the gate's total; guarded by line.mu of its backend
	shapes   shape.Table
	lastHint atomic.Int64 // ns that the last refused request was told to wait

	applying sync.Mutex // held while a policy is put in force

	endedTwice   atomic.Uint64 // permits, by copies of them
	onEndedTwice func(partition string)

	census refusingPartitions
}

// New returns a gate that enforces p. The name appears in rejections.
func New(name string, p *Policy, o Options) *Gate {
	g := &Gate{name: name, clock: newGateClock(o.Clock), dice: o.Rand}
	g.Trace(o.Tracer)
	if g.dice == nil {
		g.dice = rand.Uint64
	}
	if g.onEndedTwice = o.EndedTwice; g.onEndedTwice == nil {
		g.onEndedTwice = func(partition string) {
			log.Printf("limiter: a permit of partition %q of %q was ended twice, by a copy of it: more requests than the limit were in flight", partition, name)
		}
	}
	g.partitions.gate, g.partitions.observer, g.partitions.recall = g, o.Observer, o.Recall
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

// Trace has t told of every request and of every permit that ends from now on,
// instead of the tracer before; nil = nobody is told, which costs a request nothing.
// Calls that have begun may still reach the tracer before. It is safe for concurrent
// use.
func (g *Gate) Trace(t Tracer) {
	if t == nil {
		g.tracer.Store(nil)
		return
	}
	g.tracer.Store(&t)
}

// Apply swaps the policy in force. Partitions that keep their name keep their
// permits in flight, and what their limit learned while its signature is the
// same. Requests that are being decided see the old policy or the new one,
// never a mixture; those that wait go on under the new one.
func (g *Gate) Apply(policy *Policy) {
	g.applying.Lock()
	defer g.applying.Unlock()
	now := g.clock.Now()
	g.shapes.Apply(policy.Shapes)
	if t := g.partitions.table.Load(); t != nil && policy.backendOf(g) != t.backend() {
		g.changeBackend(now, policy, t.backend())
		return
	}
	g.partitions.apply(now, policy)
	policy.backendOf(g).line.review(now, g)
}

// switching is held by who holds the locks of two lines.
var switching sync.Mutex //nolint:gochecknoglobals // what it guards belongs to several gates

// changeBackend is [Gate.Apply] of a policy with another backend: those who wait go
// on in the wait queue of that one.
func (g *Gate) changeBackend(now int64, policy *Policy, before *Backend) {
	switching.Lock()
	defer switching.Unlock()
	from, to := &before.line, &policy.backendOf(g).line
	from.mu.Lock()
	defer from.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	g.partitions.apply(now, policy)
	for _, t := range ticketsOf(from.lanesOfLocked(g)) {
		from.removeLocked(t)
		t.line.Store(to)
		t.spec = g.partitions.resolve(now, t.req.Key)
		to.enterLocked(now, t)
	}
	from.serveLocked(now)
	to.serveLocked(now)
}

// line returns where the requests of the gate wait. A partition that is retired may know
// an earlier one.
func (g *Gate) line() *waitQueue { return &g.partitions.table.Load().backend().line }

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
	req.MaxWait = NoWait
	permit, _, err := g.offer(now, &req)
	return permit, err
}

// Offer is [Gate.Admit] for event-driven callers: instead of waiting it returns
// a [Ticket] when the request has to wait. Permit, ticket and error exclude
// each other.
func (g *Gate) Offer(now int64, req Request) (Permit, *Ticket, error) {
	return g.offer(now, &req)
}

// offer finds the request's partition and has it decided there. A refusal while
// the policy was being changed may come from a bit of the old one and a bit of
// the new one, so it is not believed: the request is decided again.
func (g *Gate) offer(now int64, req *Request) (Permit, *Ticket, error) {
	if t := g.tracer.Load(); t != nil {
		now = g.clock.at(now)
		(*t).Offered(now, req.Key, req.cost())
	}
	asked := req.Cost
	for {
		version := g.partitions.version.Load()
		s := g.partitions.find(req.Key)
		if s == nil {
			now = g.clock.at(now)
			s = g.partitions.resolve(now, req.Key)
		}
		if s.is(witnessed) {
			now = g.clock.at(now)
		}
		if req.Shape != nil {
			req.Cost = s.priced(tokens(asked) * g.shapes.Cost(req.Shape))
		}
		permit, ticket, why := s.decide(now, req)
		settled := why == admitted || version&1 == 0 && version == g.partitions.version.Load()
		if settled && s.is(witnessed) {
			witnessing(s.witness, now, req, ticket != nil, why)
		}
		if why == admitted {
			if ticket == nil {
				s.classify(req, admitted)
			}
			return permit, ticket, nil
		}
		if settled {
			s.classify(req, why)
			return Permit{}, nil, s.reject(why)
		}
		g.partitions.settle()
	}
}

// Rate returns the rate that binds a partition's requests: its own, or the
// gate's where it has none. The zero Rate = unlimited.
func (g *Gate) Rate(name string) Rate {
	t := g.partitions.table.Load()
	s := t.byName(name)
	if s == nil {
		s = t.lookup(name)
	}
	if s == nil {
		s = t.def
		return s.ingress.Rate()
	}
	if r := s.own.Rate(); r.PerSecond > 0 {
		return r
	}
	return s.ingress.Rate()
}

// Rates returns the rates that bind the requests of a key, its own and the gate's,
// without making the key a partition. The zero Rate = unlimited; blocked says that
// every request of the key is refused.
func (g *Gate) Rates(key string) (own, gate Rate, blocked bool) {
	t := g.partitions.table.Load()
	s := t.lookup(key)
	if s == nil && (key == DefaultPartition || key == OverflowPartition) {
		s = t.overflow
	}
	policy := t.policy.ofKey(key)
	if s != nil {
		policy = s.policy
	}
	return policy.Rate, t.policy.Rate, policy.Blocked && t.policy.Mode == Enforce
}

// Shape returns the shape with the given hash, which name describes; it is asked
// for only when the shape is new. nil when the policy learns nothing. Shapes that
// are asked for least make room for new ones, at most an eighth of them a
// second; until then what is new is one shape, "other".
func (g *Gate) Shape(hash uint64, name func() string) *Shape {
	return g.shapes.Find(hash, name, g.clock.Now)
}

// Learns reports whether the gate learns what shapes cost, so that callers need
// not find them otherwise.
func (g *Gate) Learns() bool { return g.shapes.Learns() }
