package limiter

import (
	"sync"
	"sync/atomic"

	"github.com/admitd/admitd/limiter/shed"
)

// Backend is what the partitions of one gate or of several share: how many of their
// requests may be at work at a backend at a time, who waits for a permit, and how
// much each partition was given while there was not enough for all. Gates that stand
// before the same backend have the same one in their policies. The zero Backend is
// ready. It is safe for concurrent use, and must not be copied.
type Backend struct {
	line waitQueue    // who waits
	fair fairness     // who was given how much
	shed shed.Shedder // of the common limit or a gate's total

	held    tally         // permits, counted while there is a common limit
	probed  atomic.Bool   // as of a partition
	left    atomic.Int64  // of those that are held, the ones whose callers have gone
	refused atomic.Uint64 // what the common limit hears of its demand, with those granted
	prober

	mu        sync.Mutex // guards the fields below
	limit     Limit      // nil = none
	signature string
}

// CommonLimit is the limit of all partitions together. See [Policy.Common].
type CommonLimit struct {
	// NewLimit makes the Limit; nil = a fixed limit of 20.
	NewLimit func() Limit
	// Signature identifies what NewLimit makes, as in [PartitionPolicy].
	Signature string
	// Fallback is the limit while the clock cannot be trusted; 0 = 20.
	Fallback int
}

// setLimit returns the limit of all who share the backend, and its fallback: the one
// before while the signature is the same. Of a new one recall tells what is known.
func (b *Backend) setLimit(form *CommonLimit, recall func(estimate)) (limit Limit, fallback int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fallback = int64(form.Fallback)
	if fallback <= 0 {
		fallback = defaultFallback
	}
	if b.limit != nil && b.signature == form.Signature {
		return b.limit, fallback
	}
	b.limit, b.signature = newLimit(&PartitionPolicy{NewLimit: form.NewLimit}), form.Signature
	recall(estimate{b.limit})
	estimate{b.limit}.watch(b.demand)
	return b.limit, fallback
}

// demand returns how many requests asked for a permit of the common limit, and how
// many of these were refused one.
func (b *Backend) demand() (offered, refused uint64) {
	refused = b.refused.Load()
	return b.held.granted() + refused, refused
}

// common is what a gate's policy makes of its backend: the bounds over all of its
// partitions. It never changes.
type common struct {
	backend  *Backend
	limit    Limit // nil = none
	fallback int64
	total    int64 // bound on the permits of this gate; 0 = none
}

// bounds returns how many permits the backend and the gate may have at a time, 0 =
// any number.
func (c *common) bounds(trusted bool) (ofBackend, ofGate int64) {
	if c.limit == nil {
		return 0, c.total
	}
	if !trusted {
		return c.fallback, c.total
	}
	return int64(min(max(c.limit.Current(), 1), maxHeld)), c.total
}

// room returns how many permits may be held: as many as bounds says, or during a stall
// as many of the backend's as are lent.
func (c *common) room(trusted bool) (ofBackend, ofGate int64) {
	ofBackend, ofGate = c.bounds(trusted)
	if ofBackend > 0 && c.backend.probed.Load() {
		ofBackend = max(ofBackend, c.backend.pool().places(ofBackend))
	}
	return ofBackend, ofGate
}

// takeUpTo adds one to n unless that is at least most; it returns what n was, or is.
func takeUpTo(n *atomic.Int64, most int64) (now int64, ok bool) {
	for {
		now = n.Load()
		if now >= most {
			return now, false
		}
		if n.CompareAndSwap(now, now+1) {
			return now + 1, true
		}
	}
}

// take takes one permit of what the partitions share, and returns how many are then
// at work at the backend.
func (s *partitionSpec) takeCommon(e entry) (all int64, ok bool) {
	c, g := s.common, s.part.gate
	ofBackend, ofGate := c.room(g.clock.Trusted())
	if ofGate > 0 {
		if all, ok = takeUpTo(&g.held, s.reach(ofGate, e)); !ok {
			return all, false
		}
	}
	if ofBackend > 0 {
		if all, ok = c.backend.held.take(s.reach(ofBackend, e), oneHeld|oneGranted); !ok {
			if ofGate > 0 {
				g.held.Add(-1)
			}
			return all, false
		}
	}
	return all, true
}

// forceCommon counts a permit that was granted beyond every bound.
func (s *partitionSpec) forceCommon() (all int64) {
	if s.common.total > 0 {
		all = s.part.gate.held.Add(1)
	}
	if s.common.limit != nil {
		all = s.common.backend.held.add(oneHeld | oneGranted)
	}
	return min(all, maxHeld)
}

// giveBack returns what takeCommon took.
func (s *partitionSpec) giveBack() {
	if s.common.total > 0 {
		s.part.gate.held.Add(-1)
	}
	if s.common.limit != nil {
		s.common.backend.held.release()
	}
}

// commonFull reports whether there is no permit left of what the partitions share;
// ofGate says that it is the gate's own total that is used up.
func (s *partitionSpec) commonFull(e entry) (full, ofGate bool) {
	c, g := s.common, s.part.gate
	backend, total := c.room(g.clock.Trusted())
	if total > 0 && g.held.Load() >= s.reach(total, e) {
		return true, true
	}
	return backend > 0 && c.backend.held.held() >= s.reach(backend, e), false
}
