package limiter

import "sync/atomic"

// pool is what the partitions of a gate share when they are under one limit, and
// what it learns from. See [Policy.Shared].
type pool struct {
	granted, refused atomic.Uint64 // permits, of the partitions that are under the limit
}

// demand is [partition.demand] for all that share a limit.
func (g *Gate) demand() (offered, refused uint64) {
	refused = g.pool.refused.Load()
	return g.pool.granted.Load() + refused, refused
}

// share returns the one limit of a policy's partitions, nil when each has its own:
// the one before while its signature is the same.
func (r *roster) share(old *table, policy *Policy) Limit {
	if !policy.Shared {
		return nil
	}
	form := &policy.Default
	if old != nil && old.shared != nil && old.policy.Default.Signature == form.Signature {
		return old.shared
	}
	l := newLimit(form)
	if w, ok := l.(interface {
		Watch(demand func() (offered, refused uint64))
	}); ok {
		w.Watch(r.gate.demand)
	}
	return l
}

// whole returns the bound over all partitions, 0 = none.
func (s *partitionSpec) whole() int64 {
	if !s.is(shared) {
		return s.total
	}
	limit := s.part.limit(s)
	if s.total > 0 {
		limit = min(limit, s.total)
	}
	return limit
}

// bound returns how many permits the partition may hold: its own limit, and no
// more than its share of what all hold. It rounds down, so that shares that are
// written to be within the whole are.
func (s *partitionSpec) bound() int64 {
	limit := s.part.limit(s)
	if s.is(portioned) {
		limit = min(limit, max(int64(s.policy.MaxShare*float64(s.whole())), 1))
	}
	return limit
}
