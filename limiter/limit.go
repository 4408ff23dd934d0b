package limiter

import "time"

// Limit estimates how many requests may be in flight. Implementations are safe
// for concurrent use; Current is one atomic load.
//
// An implementation may also have any of these methods, found by shape:
//
//	Algorithm() string              // its name, as the configuration spells it
//	BaseRTT() time.Duration         // latency without load as it believes it, 0 = unknown
//	State() map[string]float64      // inner state for operators; keys are snake_case
//	Why() string                    // why it last changed, one of a closed set of words
//	Shared() bool                   // whether it is that of several gates, which refusals then name
//
//	// Recall is called at most once, before the first sample, with the latency
//	// without load that an earlier limit of the same algorithm and backend
//	// learned: that of an earlier life of the process, or the one that a change of
//	// the configuration replaces.
//	Recall(base time.Duration)
//
//	// Left learns from a caller that has gone while its request was at work:
//	// the latency will be at least age. inFlight is as for Observe. The permit
//	// ends later, and is observed then if it ends as Success or Dropped.
//	Left(now int64, age time.Duration, inFlight int)
//
//	// Watch is called once, when a partition begins to use the limit. demand
//	// returns how many requests have asked the partition for a permit, and how
//	// many of these were refused one; both only grow, and those that wait are
//	// in neither yet. It is cheap, and may be called from Observe and Left.
//	Watch(demand func() (offered, refused uint64))
type Limit interface {
	// Current returns the present limit, at least 1. A partition holds at most
	// 1,048,575 permits, whatever it returns.
	Current() int
	// Observe learns from one permit that ended at now (monotonic
	// nanoseconds). latency is the time it was held, > 0; inFlight the permits
	// held in the partition when it was granted, itself included; dropped
	// whether its outcome was Dropped. It never blocks.
	Observe(now int64, latency time.Duration, inFlight int, dropped bool)
}

// defaultFallback is the fixed limit used when a policy names none.
const defaultFallback = 20

// newLimit returns a policy's limit.
func newLimit(policy *PartitionPolicy) Limit {
	if policy.NewLimit == nil {
		return fixed(defaultFallback)
	}
	return policy.NewLimit()
}

// fixed is the limit of a policy that names none.
type fixed int

// Current implements [Limit].
func (f fixed) Current() int { return int(f) }

// Observe implements [Limit].
func (fixed) Observe(int64, time.Duration, int, bool) {}

// Algorithm names the limit for operators.
func (fixed) Algorithm() string { return "fixed" }

// limit returns the limit in force: the algorithm's, or the fixed fallback
// while the clock cannot be trusted.
func (p *partition) limit(s *partitionSpec) int64 {
	if !p.gate.clock.Trusted() {
		return s.fallback
	}
	return int64(min(max(s.limit.Current(), 1), maxHeld))
}

// places returns the permits that may be held as far as new requests are
// concerned: the bound in force, or none while too much of it is held for
// callers that have gone.
func (s *partitionSpec) places() int64 {
	limit := s.part.limit(s)
	if s.is(bounded) || s.part.left.Load() > 0 || s.part.probed.Load() {
		limit = s.bound()
		lent := s.part.pool().places(limit)
		if !s.mayAbandon(limit) {
			return lent
		}
		return max(limit, lent)
	}
	return limit
}

// estimate is a limit, and what it tells and takes besides.
type estimate struct{ limit Limit }

// recall tells the limit, which was just made for p, what is known of the backend:
// what the limit before it learned, or else what was learned in an earlier life.
func (e estimate) recall(before estimate, p *partition) {
	if !e.recallOf(before) {
		e.recallFrom(&p.gate.partitions, p.name, p.isDynamic())
	}
}

// recallOf tells the limit, which was just made, what the limit before it learned, and
// reports whether that was anything.
func (e estimate) recallOf(before estimate) bool {
	l, ok := e.limit.(interface{ Recall(base time.Duration) })
	if !ok || before.limit == nil || before.algorithm() != e.algorithm() {
		return false
	}
	base := before.baseRTT()
	if base > 0 {
		l.Recall(base)
	}
	return base > 0
}

// recallFrom tells the limit, which was just made, what was learned in an earlier life
// of the process.
func (e estimate) recallFrom(r *partitionTable, partition string, key bool) {
	l, ok := e.limit.(interface{ Recall(base time.Duration) })
	if !ok || r.recall == nil {
		return
	}
	if base := r.recall(partition, key, e.algorithm()); base > 0 {
		l.Recall(base)
	}
}

// watch tells the limit, which was just made, where it learns of the demand.
func (e estimate) watch(demand func() (offered, refused uint64)) {
	if l, ok := e.limit.(interface {
		Watch(demand func() (offered, refused uint64))
	}); ok {
		l.Watch(demand)
	}
}

// baseRTT returns the latency without load as the limit believes it, 0 when it
// does not know.
func (e estimate) baseRTT() time.Duration {
	if l, ok := e.limit.(interface{ BaseRTT() time.Duration }); ok {
		return l.BaseRTT()
	}
	return 0
}

// algorithm returns the name of the limit's algorithm, "" when it has none.
func (e estimate) algorithm() string {
	if l, ok := e.limit.(interface{ Algorithm() string }); ok {
		return l.Algorithm()
	}
	return ""
}

// state returns the inner state of the limit, nil when it tells none.
func (e estimate) state() map[string]float64 {
	if l, ok := e.limit.(interface{ State() map[string]float64 }); ok {
		return l.State()
	}
	return nil
}

// why returns why the limit last changed, "" when it does not tell.
func (e estimate) why() string {
	if l, ok := e.limit.(interface{ Why() string }); ok {
		return l.Why()
	}
	return ""
}

// mayAbandon reports whether the permits whose callers have left leave room for
// another request of the partition: work for nobody may fill half of a limit, and
// always one place, but no more, or callers with little patience would keep the
// backend busy with nothing else.
func (s *partitionSpec) mayAbandon(limit int64) bool {
	left := int64(s.part.left.Load())
	if left <= 0 || s.is(shared) && s.common.backend.probed.Load() {
		return true // what the backend may have besides is counted otherwise, see prober
	}
	if b := s.common.backend; s.common.limit != nil && b.left.Load() > max(s.whole()/2, 1) {
		return false
	}
	return left <= max(limit/2, 1)
}

// common returns what all partitions of a policy share. Under [Policy.Shared] that is
// the limit of Default.
func (r *partitionTable) common(old *policyTable, policy *Policy) *common {
	c := &common{backend: policy.backendOf(r.gate), total: int64(min(max(policy.Total, 0), maxHeld))}
	form := policy.Common
	switch {
	case policy.Shared:
		d := &policy.Default
		form = &CommonLimit{NewLimit: func() Limit { return newLimit(d) }, Signature: d.Signature, Fallback: d.Fallback}
	case form == nil:
		return c
	}
	c.limit, c.fallback = c.backend.setLimit(form, func(l estimate) {
		if old != nil && old.common.limit != nil && l.recallOf(estimate{old.common.limit}) {
			return
		}
		l.recallFrom(r, DefaultPartition, false)
	})
	return c
}

// backendOf returns what the partitions of a gate share under the policy.
func (p *Policy) backendOf(g *Gate) *Backend {
	if p.Backend != nil {
		return p.Backend
	}
	return &g.own
}

// backend returns what the partitions share.
func (t *policyTable) backend() *Backend { return t.common.backend }

// whole returns the bound over all partitions, 0 = none.
func (s *partitionSpec) whole() int64 {
	backend, total := s.common.bounds(s.part.gate.clock.Trusted())
	if backend == 0 || total > 0 && total < backend {
		return total
	}
	return backend
}

// bound returns how many permits the partition may hold: its own limit, and no
// more than its share of what all hold. It rounds down, so that shares that are
// written to be within the whole are.
func (s *partitionSpec) bound() int64 {
	limit := s.part.limit(s)
	if most := int64(s.policy.MaxInFlight); most > 0 {
		limit = min(limit, most)
	}
	if s.is(portioned) {
		limit = min(limit, max(int64(s.policy.MaxShare*float64(s.whole())), 1))
	}
	return limit
}
