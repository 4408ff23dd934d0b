package pulsargate

import (
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// heldFrame is a frame that waits until its producer may send again.
type heldFrame struct {
	frame   []byte
	send    pulsarwire.Send
	size    int    // bytes of the frame, reserved before it has arrived
	control bool   // CLOSE_PRODUCER, not a message: it waits only for those before it
	request uint64 // its request id
}

// hold is what keeps a producer's messages from the broker.
type hold struct {
	on       bool // its messages are held
	frames   []heldFrame
	running  bool          // a goroutine takes care of frames
	gone     chan struct{} // closed when frames are discarded; nil when nobody runs
	since    int64         // monotonic ns when the present reason began
	resumeAt int64         // monotonic ns before which nothing is released
	applied  uint64        // of the server, when resumeAt was computed
	waiting  *waiting      // the first message waits in the limiter's queue
	block
}

// waiting is the first held message's place in the limiter's queue.
type waiting struct {
	ticket *limiter.Ticket
	paid   limiter.Receipt // to the meters
	next   int64           // monotonic ns when the ticket wants to be looked at again; 0 = at once
	rest   float64         // tokens that its permit is to be charged
}

// maxBatch bounds what is released at once, in bytes, so that a neighbour never
// waits long behind it.
const maxBatch = 64 << 10

// pendingRetry is when a held message looks again for receipts to have come, at
// the bound on messages in flight.
const pendingRetry = 5 * time.Millisecond

// blockLocked notes why a producer has to wait from now on.
func (p *producer) blockLocked(now int64, v *verdict) {
	h := &p.hold
	h.since, h.resumeAt, h.block = now, now+int64(v.wait), v.block
	p.notice.due = true
	if v.ticket != nil {
		h.waiting = &waiting{ticket: v.ticket, paid: v.paid, rest: v.rest}
	}
}

// holdLocked reserves the room of a frame that Keep is about to be handed, or
// pauses when there is none.
func (s *session) holdLocked(now int64, p *producer, f heldFrame) relay.Action {
	if full := s.room.full(f.size); full != "" {
		return s.pause.beginLocked(now, why{kind: pauseRoom, producer: p, size: f.size, block: block{limit: full}})
	}
	s.room.take(&f)
	s.keeping = keptFrame{producer: p, frame: f}
	p.hold.on = true
	return relay.Keep
}

// Keep implements [relay.Multiplexer]: it is handed the frame that holdLocked
// made room for.
func (s *session) Keep(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, f := s.keeping.producer, s.keeping.frame
	f.frame = frame
	s.keeping = keptFrame{}
	if p.gone || s.left { // discarded while it arrived; the client sends it again
		s.room.give(&f)
		return
	}
	h := &p.hold
	if !h.on { // all before it were released while it arrived
		h.on, h.since = true, s.r.Now()
	}
	h.frames = append(h.frames, f)
	if !h.running {
		h.running, h.gone = true, make(chan struct{})
		s.wg.Go(p.release)
	}
}

// discardLocked forgets what a producer has held.
func (p *producer) discardLocked() {
	h := &p.hold
	for i := range h.frames {
		p.s.room.give(&h.frames[i])
	}
	h.frames = nil
	h.abandonLocked()
	if h.gone != nil {
		close(h.gone)
		h.gone = nil
	}
}

// abandonLocked leaves the limiter's queue and takes back what was paid.
func (h *hold) abandonLocked() {
	if h.waiting != nil {
		h.waiting.ticket.Abandon()
		h.waiting.paid.Refund()
		h.waiting = nil
	}
}

// release is the goroutine of one throttled producer: it passes on what is held
// as the limits allow, and ends with the last frame. What cannot be written has
// its cause in a connection that is about to end.
func (p *producer) release() {
	s := p.s
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := p.step()
		if next.notice != nil && s.r.Tell(next.notice) != nil {
			return
		}
		if len(next.frames) > 0 {
			if s.r.Send(next.frames...) != nil {
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
	notice []byte   // for the client
	frames [][]byte // for the broker
	over   bool     // nothing is held any more
	wait   time.Duration
	ready  <-chan struct{} // the limiter's queue has granted a permit
	gone   <-chan struct{} // the producer is discarded
}

// step decides about the held frames of a producer as of now.
func (p *producer) step() step {
	s, h := p.s, &p.hold
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.r.Now()
	if len(h.frames) == 0 {
		p.openLocked(now)
		return step{over: true}
	}
	next := step{gone: h.gone, wait: time.Second}
	if s.r.Draining() {
		h.abandonLocked() // nothing is released any more; others may have its place
		return next
	}
	p.checkReceiptLocked(now)
	if applied := s.srv.applied.Load(); h.applied != applied { // other limits: ask them
		h.applied, h.resumeAt = applied, now
	}
	for size := 0; len(h.frames) > 0 && size < maxBatch && p.admitHeldLocked(now); {
		f := &h.frames[0]
		size += f.size
		next.frames = append(next.frames, f.frame)
		s.room.give(f)
		*f = heldFrame{}
		h.frames = h.frames[1:]
	}
	if len(next.frames) > 0 {
		s.pause.signalLocked()
	}
	next.notice = p.noticeLocked(now)
	next.wait, next.ready = p.waitLocked(now)
	return next
}

// admitHeldLocked reports whether the first held frame may go; its message is
// then in flight.
func (p *producer) admitHeldLocked(now int64) bool {
	s, h := p.s, &p.hold
	f := &h.frames[0]
	limits := s.srv.limits.Load()
	switch {
	case f.control:
		s.book.closing(p, f.request, limits.MaxProducers)
		return true
	case h.waiting != nil:
		return p.redeemLocked(now, &f.send)
	case now < h.resumeAt:
		return false
	case s.room.inFlight >= limits.MaxPending: // held or not, it would be one too many
		h.resumeAt = now + int64(pendingRetry)
		return false
	}
	v := p.decideLocked(now, &f.send, f.size, true)
	if v.ok {
		p.launchLocked(now, &f.send, v.permit)
		return true
	}
	since, same := h.since, v.limit == h.limit
	if !same {
		p.accountLocked(now)
	}
	p.blockLocked(now, &v)
	if same {
		h.since, p.notice.due = since, !v.reason.ConnectionLevel()
	}
	return false
}

// redeemLocked asks whether the limiter's queue has come to the first held message.
func (p *producer) redeemLocked(now int64, m *pulsarwire.Send) bool {
	w := p.hold.waiting
	permit, next, done, err := w.ticket.Step(now)
	if !done {
		w.next = next
		return false
	}
	p.hold.waiting = nil
	if err != nil { // its time in the queue is over; it starts again
		w.paid.Refund()
		p.hold.resumeAt = now + int64(retryAfter(err, float64(m.NumMessages)))
		return false
	}
	permit.Charge(w.rest)
	p.launchLocked(now, m, permit)
	return true
}

// waitLocked returns for how long there is nothing to do, and what may happen
// earlier.
func (p *producer) waitLocked(now int64) (time.Duration, <-chan struct{}) {
	at, ready := p.hold.resumeAt, (<-chan struct{})(nil)
	if w := p.hold.waiting; w != nil {
		at, ready = w.next, w.ticket.Ready()
	}
	if p.notice.pending && p.notice.deadline < at {
		at = p.notice.deadline
	}
	// Limits may be changed meanwhile: look again every second.
	return min(max(time.Duration(at-now), 0), time.Second), ready
}

// openLocked ends the throttling of a producer.
func (p *producer) openLocked(now int64) {
	p.accountLocked(now)
	p.hold = hold{applied: p.hold.applied}
	if p.notice.missing {
		p.s.notices.missing.Add(-1)
	}
	p.notice.missing, p.notice.pending = false, false
	p.s.pause.signalLocked()
}

// accountLocked counts the time for which a producer was throttled.
func (p *producer) accountLocked(now int64) {
	p.s.o.Observer.Throttled(p.topic.Rule().Label, p.hold.reason.String(), time.Duration(now-p.hold.since))
}
