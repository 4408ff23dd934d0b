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
// before its first End; do not keep two copies, since each would end once.
type Permit struct {
	part  *partition
	start int64  // monotonic ns when it was granted
	seen  int32  // permits held in the partition when granted, itself included
	epoch uint32 // of the clock when granted
	bare  bool   // the gate was off: teach nothing
	total bool   // counted in the gate's total
	ended uint32 // 1 once ended; by atomic operations
}

// End returns the permit and reports how the work went. Only the first call
// counts; later calls do nothing. It is safe for concurrent use.
func (p *Permit) End(o Outcome) {
	if p.part == nil || atomic.SwapUint32(&p.ended, 1) != 0 {
		return
	}
	now := p.part.gate.clock.Now()
	p.part.end(now, time.Duration(now-p.start), p, o)
}

// EndSampled is [Permit.End] with a latency that the ingress measured itself,
// for protocols in which the permit is held longer than the backend worked.
func (p *Permit) EndSampled(latency time.Duration, o Outcome) {
	if p.part == nil || atomic.SwapUint32(&p.ended, 1) != 0 {
		return
	}
	p.part.end(p.part.gate.clock.Now(), latency, p, o)
}

// Charge spends tokens beyond those that admission took, once the real cost of
// the request is known. A negative charge refunds. The debt that a charge can
// leave is bounded; see [Bucket.Spend].
func (p *Permit) Charge(tokens float64) {
	if p.part == nil {
		return
	}
	g := p.part.gate
	for _, b := range [2]*Bucket{g.table.Load().bucket, p.part.spec.Load().bucket} {
		if tokens < 0 {
			b.Refund(-tokens)
		} else if tokens > 0 {
			b.Spend(g.clock.Now(), tokens)
		}
	}
}

// Partition returns the name of the partition that granted the permit, "" for
// the zero Permit.
func (p *Permit) Partition() string {
	if p.part == nil {
		return ""
	}
	return p.part.name
}

// Label returns the partition's name as metrics carry it: bounded by the
// configuration, never a client's key.
func (p *Permit) Label() string {
	if p.part == nil {
		return ""
	}
	return p.part.label
}
