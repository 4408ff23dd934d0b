package limiter

import (
	"context"
	"slices"
	"time"
)

// Ticket is the place of a request that has to wait: first for tokens that it
// borrowed, then for a permit. [Gate.Admit] waits by itself; a Ticket is for
// callers that are driven by events, or have something to do before they wait.
type Ticket struct {
	part     *partition
	table    *table
	req      Request
	deadline int64         // monotonic ns; the queue's bound
	due      int64         // monotonic ns when the debt is paid; 0 = waits for a permit
	paid     [2]*Bucket    // buckets that took tokens for this ticket, whatever is in force by now
	waiting  [2]*Bucket    // those of them that count this ticket among their waiters
	ready    chan struct{} // closed when granted
	notify   func()        // called when granted; guarded by gate.waitMu, nil = nobody
	granted  bool          // guarded by gate.waitMu
	queued   bool          // guarded by gate.waitMu
	permit   Permit        // valid once granted
}

// owe makes the ticket wait for tokens that were borrowed.
func (t *Ticket) owe(now int64, spec *partitionSpec, debts debtsOwed) {
	t.due = now + int64(max(debts[0], debts[1]))
	if t.req.MaxWait > 0 {
		t.deadline = now + int64(t.req.MaxWait)
	}
	t.paid = [2]*Bucket{t.table.bucket, spec.bucket}
	for i, debt := range debts {
		if debt > 0 { // it came with a place among the bucket's waiters
			t.waiting[i] = t.paid[i]
		}
	}
}

// enqueue puts the ticket at the end of the partition's queue, unless the queue
// is full. The ticket may be granted when enqueue returns.
func (t *Ticket) enqueue(now int64, spec *partitionSpec) bool {
	wait := spec.maxWait
	if t.req.MaxWait > 0 {
		wait = min(wait, t.req.MaxWait)
	}
	t.deadline = now + int64(wait)
	return t.part.gate.push(t, spec.depth)
}

// Due returns when the ticket wants to be looked at again, in monotonic
// nanoseconds: the debt is paid and [Ticket.Resume] continues, or the wait is
// over and [Ticket.Expire] ends it. indebted tells which.
func (t *Ticket) Due() (at int64, indebted bool) {
	if t.due > 0 {
		return t.due, true
	}
	return t.deadline, false
}

// Ready is closed when a permit was granted; [Ticket.Permit] then returns it.
func (t *Ticket) Ready() <-chan struct{} { return t.ready }

// Notify has f called when a permit is granted, at once when one was already.
// f runs under the gate's lock: it may note the event, and must not call the
// gate.
func (t *Ticket) Notify(f func()) {
	g := t.part.gate
	g.waitMu.Lock()
	defer g.waitMu.Unlock()
	t.notify = f
	if t.granted {
		f()
	}
}

// Permit returns the granted permit. Call it once, after Ready.
func (t *Ticket) Permit() Permit { return t.permit }

// Resume continues after the debt is paid. It reports the permit, or the
// refusal, or neither when the ticket now waits for a permit.
func (t *Ticket) Resume(now int64) (permit Permit, queued bool, err error) {
	t.leaveBuckets()
	t.due = 0
	if t.deadline > 0 {
		left := time.Duration(t.deadline - now)
		if left <= 0 {
			left = -1
		}
		t.req.MaxWait = left
	}
	p, total := t.part, t.table.total
	why := fullPartition
	if p.queued.Load() == 0 {
		held, full, ok := p.acquire(p.places(p.spec.Load()), total)
		if ok {
			return p.grant(now, held, total), false, nil
		}
		why = full
	}
	permit, next, err := p.queueOrRefuse(now, t.table, &t.req, t, why)
	return permit, next != nil, err
}

// Expire gives up because the queue's time is over. When a permit was granted
// in the meantime it is returned instead of the refusal.
func (t *Ticket) Expire() (Permit, error) {
	if t.part.gate.remove(t) {
		return t.Permit(), nil
	}
	t.refund()
	why := latePartition
	if p := t.part; p.tally.held() < p.places(p.spec.Load()) {
		why = lateTotal // its own partition had room
	}
	return Permit{}, t.part.reject(why)
}

// Abandon gives up because the caller went away; a permit granted in the
// meantime is ended as ignored, and tokens are returned.
func (t *Ticket) Abandon() {
	if t.due == 0 && t.part.gate.remove(t) {
		permit := t.Permit()
		permit.End(Ignored)
		return
	}
	t.leaveBuckets()
	t.due = 0
	t.part.counts.gaveUp.Add(1)
	t.refund()
}

// Wait waits for the ticket's end. The error is a [*Rejection], or ctx.Err()
// when ctx ended first. Nobody else may look at the ticket meanwhile.
func (t *Ticket) Wait(ctx context.Context) (Permit, error) {
	clock := t.part.gate.clock
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, indebted := t.Due()
		timer.Reset(max(time.Duration(at-clock.Now()), 0))
		select {
		case <-ctx.Done():
			t.Abandon()
			return Permit{}, ctx.Err()
		case <-t.ready:
			return t.Permit(), nil
		case <-timer.C:
		}
		if !indebted {
			return t.Expire()
		}
		permit, queued, err := t.Resume(clock.Now())
		if !queued {
			return permit, err
		}
	}
}

// leaveBuckets ends the ticket's place among the borrowers.
func (t *Ticket) leaveBuckets() {
	for i, b := range t.waiting {
		if b != nil {
			b.waiting.Add(-1)
			t.waiting[i] = nil
		}
	}
}

// refund returns the tokens of a request that was not admitted.
func (t *Ticket) refund() {
	for _, b := range t.paid {
		b.Refund(t.req.cost())
	}
}

// push queues a ticket and then tries the queue again: a permit may have been
// released between the refusal and the push. waiting is raised before that
// second look and read by a releaser after it gave its permit back, so one of
// the two sees the other.
func (g *Gate) push(t *Ticket, depth int) bool {
	g.waitMu.Lock()
	defer g.waitMu.Unlock()
	p := t.part
	if len(p.queue) >= depth {
		return false
	}
	t.queued = true
	p.queue = append(p.queue, t)
	p.queued.Add(1)
	g.waiting.Add(1)
	if len(p.queue) == 1 {
		g.busy = append(g.busy, p)
	}
	g.pumpLocked(p)
	return true
}

// remove takes a ticket out of its queue, and reports whether it was granted
// before that.
func (g *Gate) remove(t *Ticket) (granted bool) {
	g.waitMu.Lock()
	defer g.waitMu.Unlock()
	if t.granted || !t.queued {
		return t.granted
	}
	i := slices.Index(t.part.queue, t)
	t.part.queue = slices.Delete(t.part.queue, i, i+1)
	g.leftLocked(t)
	return false
}

// pump grants permits to those who wait: first in p, then elsewhere, since a
// permit of the gate's total is free for all. p may be nil.
func (g *Gate) pump(p *partition) {
	g.waitMu.Lock()
	defer g.waitMu.Unlock()
	if p != nil {
		g.pumpLocked(p)
	}
	if p != nil && g.table.Load().total == 0 {
		return
	}
	for _, q := range slices.Clone(g.busy) {
		g.pumpLocked(q)
	}
}

// pumpLocked grants permits to p's queue, oldest first, while there is room.
func (g *Gate) pumpLocked(p *partition) {
	if len(p.queue) == 0 {
		return
	}
	limit, total := p.places(p.spec.Load()), g.table.Load().total
	for len(p.queue) > 0 {
		held, _, ok := p.acquire(limit, total)
		if !ok {
			return
		}
		t := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		g.leftLocked(t)
		t.granted = true
		t.permit = p.grant(g.clock.Now(), held, total)
		close(t.ready)
		if t.notify != nil {
			t.notify()
		}
	}
}

// leftLocked notes that a ticket left the queue of its partition.
func (g *Gate) leftLocked(t *Ticket) {
	t.queued = false
	p := t.part
	p.queued.Add(-1)
	g.waiting.Add(-1)
	if len(p.queue) == 0 {
		p.queue = nil
		if i := slices.Index(g.busy, p); i >= 0 {
			g.busy = slices.Delete(g.busy, i, i+1)
		}
	}
}
