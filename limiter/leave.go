package limiter

import "time"

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
	word, ok := p.markLeft()
	if !ok {
		return
	}
	part := p.spec.part
	part.left.Add(1)
	part.counts.left.Add(1)
	if word&permitBare != 0 {
		return
	}
	limit, ok := part.spec.Load().limit.(interface {
		Left(now int64, age time.Duration, inFlight int)
	})
	clock := &part.gate.clock
	if !ok || !clock.Trusted() || word.epoch() != clock.Epoch() {
		return
	}
	now := clock.Now()
	if age := time.Duration(now - p.start); age > 0 {
		limit.Left(now, min(age, maxLatency), word.seen())
	}
}

// mayAbandon reports whether the permits whose callers have left leave room for
// another request: work for nobody may fill half of the limit, and always one
// place, but no more, or callers with little patience would keep the backend
// busy with nothing else.
func (p *partition) mayAbandon(limit int64) bool {
	left := int64(p.left.Load())
	return left <= 0 || left <= max(limit/2, 1)
}
