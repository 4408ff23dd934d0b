package pulsargate

import (
	"net"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// heldFrame is a frame that waits until its producer may send again.
type heldFrame struct {
	frame   []byte
	send    pulsarwire.Send
	size    int    // bytes of the frame, reserved before it has arrived
	control bool   // CLOSE_PRODUCER, not a message: it waits only for those before it
	request uint64 // its request id
}

// waiting is the first held message's place in the limiter's queue.
type waiting struct {
	ticket *limiter.Ticket
	next   int64   // monotonic ns when the ticket wants to be looked at again; 0 = at once
	rest   float64 // tokens that its permit is to be charged
	send   pulsarwire.Send
	size   int
}

// maxBatch bounds what is released at once, in bytes, so that a neighbour never
// waits long behind it.
const maxBatch = 64 << 10

// pendingRetry is when a held message looks again for receipts to have come, at
// the bound on messages in flight.
const pendingRetry = 5 * time.Millisecond

// blockLocked notes why a producer has to wait from now on.
func (p *producer) blockLocked(now int64, v *verdict, m *pulsarwire.Send, size int) {
	p.since, p.limit, p.reason, p.meter = now, v.limit, v.reason, v.meter
	p.resumeAt = now + int64(v.wait)
	p.notice.due = true
	if v.ticket != nil {
		p.waiting = &waiting{ticket: v.ticket, rest: v.rest, send: *m, size: size}
	}
}

// fullLocked returns the name of the bound that leaves no room to hold a frame,
// "" when there is room.
func (s *session) fullLocked(size int) string {
	limits := s.srv.limits.Load()
	switch {
	case s.held >= limits.MaxPending:
		return LimitPending
	case s.heldBytes+size > limits.MaxHeldBytes:
		return LimitHeldBytes
	case s.srv.heldBytes.Load()+int64(size) > int64(limits.MaxGateHeldBytes):
		return LimitGateHeldBytes
	default:
		return ""
	}
}

// queueLocked holds a frame behind those that its producer has held already, or
// pauses when there is no room.
func (c *clientSide) queueLocked(now int64, p *producer, f heldFrame) action {
	if full := c.fullLocked(f.size); full != "" {
		return c.pauseLocked(now, p, pause{kind: pauseRoom, size: f.size, cause: verdict{limit: full}})
	}
	return c.holdLocked(p, f)
}

// holdLocked reserves the room of a frame that keep is about to be handed.
func (c *clientSide) holdLocked(p *producer, f heldFrame) action {
	c.held++
	c.heldBytes += f.size
	c.srv.heldFrames.Add(1)
	c.srv.heldBytes.Add(int64(f.size))
	c.target, c.frame = p, f
	p.releasing = true
	return actHold
}

// keep implements inspector: it is handed the frame that holdLocked made room
// for, or gives the room back.
func (c *clientSide) keep(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, f := c.target, c.frame
	f.frame = frame
	c.target, c.frame = nil, heldFrame{}
	if p.gone || frame == nil { // discarded while it arrived, or it never did; the client sends it again
		c.freeLocked(&f)
		return
	}
	if !p.releasing { // all before it were released while it arrived
		p.releasing, p.since = true, c.srv.gate.Now()
	}
	p.held = append(p.held, f)
	if !p.running {
		p.running, p.gives = true, make(chan struct{})
		c.wg.Go(func() { c.release(p) })
	}
}

// freeLocked gives back the room of a held frame.
func (s *session) freeLocked(f *heldFrame) {
	s.held--
	s.heldBytes -= f.size
	s.srv.heldFrames.Add(-1)
	s.srv.heldBytes.Add(int64(-f.size))
}

// discardLocked forgets what a producer has held.
func (s *session) discardLocked(p *producer) {
	for i := range p.held {
		s.freeLocked(&p.held[i])
	}
	p.held = nil
	p.abandonLocked()
	if p.gives != nil {
		close(p.gives)
		p.gives = nil
	}
}

// abandonLocked leaves the limiter's queue and takes back what was paid.
func (p *producer) abandonLocked() {
	if p.waiting != nil {
		p.waiting.ticket.Abandon()
		refund(p.topic.meters.Load().meters, &p.waiting.send, p.waiting.size)
		p.waiting = nil
	}
}

// release is the goroutine of one throttled producer: it passes on what is held
// as the limits allow, and ends with the last frame.
func (s *session) release(p *producer) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := s.step(p)
		if next.notice != nil {
			if err := s.client.write(next.notice); err != nil {
				s.end(err, false)
				return
			}
		}
		if len(next.frames) > 0 {
			if err := s.broker.writeAll(next.frames); err != nil {
				s.end(err, true)
				return
			}
			continue
		}
		if next.over {
			return
		}
		timer.Reset(next.wait)
		select {
		case <-timer.C:
		case <-next.ready:
		case <-next.gone:
		case <-s.done:
			return
		}
	}
}

// step is what release does next.
type step struct {
	notice []byte      // for the client
	frames net.Buffers // for the broker
	over   bool        // nothing is held any more
	wait   time.Duration
	ready  <-chan struct{} // the limiter's queue has granted a permit
	gone   <-chan struct{} // the producer is discarded
}

// step decides about the held frames of a producer as of now.
func (s *session) step(p *producer) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.srv.gate.Now()
	if len(p.held) == 0 {
		s.openLocked(p, now)
		return step{over: true}
	}
	next := step{gone: p.gives, wait: time.Hour}
	if s.draining {
		p.abandonLocked() // nothing is released any more; others may have its place
		return next
	}
	s.checkReceiptLocked(p, now)
	if applied := s.srv.applied.Load(); p.applied != applied { // other limits: ask them
		p.applied, p.resumeAt = applied, now
	}
	size := 0
	for len(p.held) > 0 && size < maxBatch && s.admitHeldLocked(p, now) {
		f := &p.held[0]
		size += f.size
		next.frames = append(next.frames, f.frame)
		s.freeLocked(f)
		p.held[0] = heldFrame{}
		p.held = p.held[1:]
	}
	if len(next.frames) > 0 {
		s.signal()
	}
	next.notice = s.noticeLocked(p, now)
	next.wait, next.ready = p.waitLocked(now)
	return next
}

// admitHeldLocked reports whether the first held frame may go; its message is
// then in flight.
func (s *session) admitHeldLocked(p *producer, now int64) bool {
	f := &p.held[0]
	if f.control {
		s.closingLocked(p, f.request)
		return true
	}
	if p.waiting != nil {
		return s.redeemLocked(p, now)
	}
	if now < p.resumeAt {
		return false
	}
	if s.inFlight >= s.srv.limits.Load().MaxPending { // held or not, it would be one too many
		p.resumeAt = now + int64(pendingRetry)
		return false
	}
	v := s.decide(now, p, &f.send, f.size, true)
	if v.ok {
		s.launchLocked(p, now, &f.send, v.permit)
		return true
	}
	since, same := p.since, v.limit == p.limit
	if !same {
		s.accountLocked(p, now)
	}
	p.blockLocked(now, &v, &f.send, f.size)
	if same {
		p.since, p.notice.due = since, !v.reason.ConnectionLevel()
	}
	return false
}

// redeemLocked asks whether the limiter's queue has come to the first held message.
func (s *session) redeemLocked(p *producer, now int64) bool {
	w := p.waiting
	permit, next, done, err := w.ticket.Step(now)
	switch {
	case !done:
		w.next = next
		return false
	case err != nil: // its time in the queue is over; it starts again
		p.waiting = nil
		refund(p.topic.meters.Load().meters, &w.send, w.size)
		p.resumeAt = now + int64(retryAfter(err, float64(w.send.NumMessages)))
		return false
	}
	s.boardLocked(p, now, permit)
	return true
}

// boardLocked ends the wait in the limiter's queue with a permit.
func (s *session) boardLocked(p *producer, now int64, permit limiter.Permit) {
	w := p.waiting
	p.waiting = nil
	permit.Charge(w.rest)
	s.launchLocked(p, now, &w.send, permit)
}

// waitLocked returns for how long there is nothing to do, and what may happen
// earlier.
func (p *producer) waitLocked(now int64) (time.Duration, <-chan struct{}) {
	at, ready := p.resumeAt, (<-chan struct{})(nil)
	if p.waiting != nil {
		at = p.waiting.next
		ready = p.waiting.ticket.Ready()
	}
	if p.notice.pending && p.notice.deadline < at {
		at = p.notice.deadline
	}
	// Limits may be changed meanwhile: look again every second.
	return min(max(time.Duration(at-now), 0), time.Second), ready
}

// openLocked ends the throttling of a producer.
func (s *session) openLocked(p *producer, now int64) {
	s.accountLocked(p, now)
	p.releasing, p.running, p.gives, p.held, p.limit = false, false, nil, nil, ""
	p.meter = nil
	if p.notice.missing {
		s.missing.Add(-1)
	}
	p.notice.missing, p.notice.pending = false, false
	s.signal()
}

// accountLocked counts the time for which a producer was throttled.
func (s *session) accountLocked(p *producer, now int64) {
	s.srv.o.Observer.Throttled(p.topic.meters.Load().label, p.reason.String(), time.Duration(now-p.since))
}
