package limiter

import (
	"context"
	"sync/atomic"
	"time"
)

// Ticket is the place of a request that has to wait: first for tokens that it
// borrowed, then for a permit. [Gate.Admit] waits by itself; a Ticket is for
// callers that are driven by events, or have something to do before they wait.
// They call [Ticket.Step] when it is due and when the ticket is [Ticket.Ready],
// until it is done. A ticket is used by one goroutine at a time.
type Ticket struct {
	gate *Gate
	spec *partitionSpec // guarded by line.mu while the ticket is in the wait queue
	req  Request
	at   int64 // monotonic ns when it was offered
	dues [2]Due
	paid Receipt // of dues

	began     int64 // monotonic ns when the wait began
	debtUntil int64 // monotonic ns when the debt is paid; 0 = waits for a permit
	deadline  int64 // monotonic ns when the wait is over; 0 in debt = no bound
	ready     chan struct{}

	line    atomic.Pointer[waitQueue] // in which it waits or is to wait; see lock
	place   listNode[Ticket]          // guarded by line.mu
	lane    *classQueue               // in which it is or was; guarded by line.mu
	crowded bool                      // many were ahead when it joined
	notify  func()                    // called when granted; guarded by line.mu, nil = nobody
	granted bool                      // guarded by line.mu
	ousted  bool                      // it had to make room for somebody who was given less; guarded by line.mu
	permit  Permit                    // valid once granted, until it is handed over
}

// longestWait bounds the waits and deadlines of a request, so that adding one to
// the clock cannot overflow: 36 years.
const longestWait = time.Duration(1) << 60

// newTicket returns the ticket of a request that has paid its dues to s.
func newTicket(now int64, s *partitionSpec, req *Request) *Ticket {
	t := &Ticket{gate: s.part.gate, spec: s, req: *req, at: now, dues: s.dues(req.cost()), ready: make(chan struct{})}
	t.req.MaxWait, t.req.Deadline = min(req.MaxWait, longestWait), min(req.Deadline, longestWait)
	t.line.Store(s.line())
	t.paid = Bill(t.dues[:]).Paid()
	return t
}

// owe makes the ticket wait for tokens that were borrowed.
func (t *Ticket) owe(now int64, paid Receipt, wait time.Duration) {
	t.paid = paid.For(t.dues[:])
	t.began, t.debtUntil = now, now+int64(wait)
	if t.req.MaxWait > 0 {
		t.deadline = now + int64(t.req.MaxWait)
	}
}

// Ready is closed when the wait is over before its time: [Ticket.Step] then returns the
// permit, or the rejection of one that had to make room for others.
func (t *Ticket) Ready() <-chan struct{} { return t.ready }

// Indebted reports whether the ticket waits for tokens, not for a permit.
func (t *Ticket) Indebted() bool { return t.debtUntil > 0 }

// Notify has f called when the ticket is [Ticket.Ready], at once when it is already.
// f runs under the gate's lock: it may note the event, and must not call the
// gate.
func (t *Ticket) Notify(f func()) {
	defer t.lock().mu.Unlock()
	t.notify = f
	if t.granted || t.ousted {
		f()
	}
}

// Step does what is due at now (monotonic nanoseconds). When that ends the wait,
// done is true, with the permit or else the [*Rejection]; the ticket must then
// not be used again. Otherwise next is when to call again at the latest;
// earlier calls do no harm.
func (t *Ticket) Step(now int64) (permit Permit, next int64, done bool, err error) {
	switch {
	case t.debtUntil > now:
		return Permit{}, t.debtUntil, false, nil
	case t.debtUntil > 0:
		return t.resume(now)
	}
	select {
	case <-t.ready:
	default:
		if now < t.deadline {
			return Permit{}, t.look(now), false, nil
		}
	}
	if t.leave() {
		permit := t.handOver()
		if t.req.Deadline > 0 && now >= t.at+int64(t.req.Deadline) { // nobody wants the answer
			permit.End(Ignored)
			return Permit{}, 0, true, t.refuse(now, t.spec.part.late())
		}
		t.spec.part.waited(time.Duration(permit.start - t.began))
		t.served()
		return permit, 0, true, nil
	}
	if t.ousted {
		return Permit{}, 0, true, t.refuse(now, fullTotal)
	}
	return Permit{}, 0, true, t.refuse(now, t.spec.part.late())
}

// look has it found out whether the backend has stalled, where nobody new asks, and
// returns when to look again.
func (t *Ticket) look(now int64) (next int64) {
	l := t.lock()
	s := t.spec
	l.mu.Unlock()
	if !s.is(probing) {
		return t.deadline
	}
	why := fullPartition
	if s.part.late() == lateTotal {
		why = fullTotal
	}
	s.lend(now, why)
	return min(t.deadline, now+int64(probeEvery))
}

// resume goes on once the debt is paid, under the policy that is in force then
// and in the partition that the key finds then.
func (t *Ticket) resume(now int64) (permit Permit, next int64, done bool, err error) {
	t.paid.Settle()
	t.debtUntil = 0
	if t.deadline > 0 {
		if t.req.MaxWait = time.Duration(t.deadline - now); t.req.MaxWait <= 0 {
			t.req.MaxWait = NoWait
		}
	}
	s := t.gate.partitions.resolve(now, t.req.Key)
	t.spec = s
	t.line.Store(s.line())
	p := s.part
	r := s.rank(&t.req)
	pass, why := s.mayPass(&t.req, r)
	if pass {
		at, full, ok := p.enter(s, entry{rank: r})
		if ok {
			t.served()
			p.waited(time.Duration(now - t.began))
			return t.grant(now, at, s), 0, true, nil
		}
		why = full
	}
	if s.mustRefuse(&t.req) || !t.join(now) {
		return Permit{}, 0, true, t.refuse(now, why)
	}
	return Permit{}, t.deadline, false, nil
}

// served counts the request, which goes on now.
func (t *Ticket) served() {
	t.spec.classify(&t.req, admitted)
	if t.crowded && t.spec.shed != nil {
		t.spec.shed.Fed()
	}
}

// refuse gives back what was paid, since no work ran (ADR 1).
func (t *Ticket) refuse(now int64, why cause) error {
	t.paid.Refund()
	if why == fullTotal || why == lateTotal {
		t.spec.common.backend.fair.refused(now, t.spec)
	}
	t.spec.classify(&t.req, why)
	if !t.crowded {
		t.spec.noteNoPermit(now, entry{rank: t.spec.rank(&t.req)}, t.req.Shape)
	}
	if w := t.spec.witness; w != nil {
		w.Waited(t.at, now, Refused)
	}
	return t.spec.part.spec.Load().reject(why)
}

// Abandon gives up because the caller went away; a permit granted in the
// meantime is ended as ignored, and tokens are returned.
func (t *Ticket) Abandon() {
	if t.debtUntil == 0 && t.leave() {
		permit := t.handOver()
		permit.End(Ignored)
		t.paid.Refund()
		return
	}
	if t.debtUntil == 0 { // it wanted a permit and got none, whoever lost patience
		t.spec.unserved(t.gate.Now())
	}
	t.debtUntil = 0
	t.spec.part.counts.gaveUp.Add(1)
	t.spec.part.marks.set(restMark)
	t.paid.Refund()
}

// Wait waits for the ticket's end. The error is a [*Rejection], or ctx.Err()
// when ctx ended first. Nobody else may look at the ticket meanwhile.
func (t *Ticket) Wait(ctx context.Context) (Permit, error) {
	clock := &t.gate.clock
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := clock.Now()
		permit, next, done, err := t.Step(now)
		if done {
			return permit, err
		}
		timer.Reset(time.Duration(next - now))
		select {
		case <-ctx.Done():
			t.Abandon()
			return Permit{}, ctx.Err()
		case <-t.ready:
		case <-timer.C:
		}
	}
}

// grantLocked gives the ticket, which has left the line, a place in the
// partition of s.
func (t *Ticket) grantLocked(now int64, s *partitionSpec, at reservation) {
	t.granted = true
	t.permit = t.grant(now, at, s)
	t.notifyLocked()
}

// evictLocked has a ticket that has left the line be refused.
func (t *Ticket) evictLocked() {
	t.ousted = true
	t.notifyLocked()
}

// tellLocked tells who waits that the wait is over.
func (t *Ticket) notifyLocked() {
	close(t.ready)
	if t.notify != nil {
		t.notify()
	}
}

// grant makes the ticket's permit for a place that was taken under s.
func (t *Ticket) grant(now int64, at reservation, s *partitionSpec) Permit {
	if s.witness != nil {
		s.witness.Waited(t.at, now, Admitted)
	}
	return s.part.grant(now, at, t.paying(s), t.req.Shape)
}

// paying returns s with the bucketSet that this ticket was paid to, which differs
// when a reload brought another: what is charged later goes to the same.
func (t *Ticket) paying(s *partitionSpec) *partitionSpec {
	paid := bucketSet{t.dues[0].Bucket, t.dues[1].Bucket}
	if s.bucketSet == paid {
		return s
	}
	joint := *s
	joint.bucketSet = paid
	return &joint
}

// handOver returns the granted permit, once.
func (t *Ticket) handOver() Permit {
	permit := t.permit
	t.permit = Permit{}
	return permit
}
