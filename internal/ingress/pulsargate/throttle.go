package pulsargate

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// notices are the ThrottleProducers of a connection. All but missing is guarded
// by session.mu.
type notices struct {
	on      bool                 // the client understands them; constant once it is connected
	sent    map[uint64]*producer // not acknowledged, by id
	last    uint64               // id
	missing atomic.Int32         // throttled producers whose client has not acknowledged it in time
}

// next returns the id of a new notice for a producer, in place of its last one.
func (n *notices) next(p *producer) uint64 {
	delete(n.sent, p.notice.id)
	n.last++
	p.notice.id = n.last
	n.sent[n.last] = p
	return n.last
}

// notice is the ThrottleProducer that was sent last for a producer.
type notice struct {
	id       uint64
	due      bool  // one has to be sent
	pending  bool  // no receipt yet, and one is waited for until deadline
	missing  bool  // no receipt within the wait: the connection is paused for it
	deadline int64 // monotonic ns; 0 = its receipt is not waited for
	until    int64 // monotonic ns until which the client was told to wait
	heeded   bool  // it was acknowledged
}

// noticeLocked returns the ThrottleProducer that a producer's client has to be
// sent now, nil when there is none.
func (p *producer) noticeLocked(now int64) []byte {
	s := p.s
	if !p.notice.due {
		return nil
	}
	p.notice.due = false
	if !s.notices.on || p.notice.missing || len(p.hold.frames) == 0 {
		return nil
	}
	pause := time.Duration(0)
	if !p.hold.reason.ConnectionLevel() {
		pause = p.backlogLocked(now)
		if p.notice.heeded && now+int64(pause) <= p.notice.until {
			return nil // it waits for long enough already
		}
	}
	m := pulsarwire.ThrottleProducer{RequestID: s.notices.next(p), ProducerID: p.id, Reason: p.hold.reason}
	p.notice.deadline, p.notice.heeded = 0, false
	if pause > 0 {
		m.PauseMillis = uint64((pause + time.Millisecond - 1) / time.Millisecond)
		p.notice.pending = true
		p.notice.deadline, p.notice.until = now+int64(s.o.ReceiptWait), now+int64(pause)
	}
	s.o.Observer.Happened(EventNotified)
	return pulsarwire.AppendFrame(nil, pulsarwire.TypeThrottleProducer, m.Append(nil))
}

// backlogLocked returns for how long a client should send nothing: until the
// limit lets go of the last message that is held, not just of the first, or what
// is held would grow with every pause.
func (p *producer) backlogLocked(now int64) time.Duration {
	h := &p.hold
	pause := max(time.Duration(h.resumeAt-now), 0)
	if h.meter == nil {
		return pause
	}
	cost := 0.0
	for i := range h.frames {
		if f := &h.frames[i]; !f.control {
			cost += h.meter.Cost(f.send.NumMessages, f.size)
		}
	}
	return max(pause, h.meter.Wait(now, cost))
}

// acknowledged records a ThrottleProducerReceipt. It sits behind the messages
// that the client had sent before, which is why the gate goes on reading, and
// holding, while it waits.
func (s *session) acknowledged(id uint64) {
	event, now := EventReceiptUnknown, s.r.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.notices.sent[id]; p != nil {
		delete(s.notices.sent, id)
		event = EventReceipt
		if p.notice.deadline > 0 && now > p.notice.deadline {
			event = EventReceiptLate
		}
		if p.notice.id == id {
			p.notice.pending, p.notice.heeded = false, true
		}
	}
	s.o.Observer.Happened(event)
}

// checkReceiptLocked pauses the connection when a receipt has not come in time,
// until the time is over that the client was told to wait.
func (p *producer) checkReceiptLocked(now int64) {
	s := p.s
	if p.notice.missing && now >= p.hold.resumeAt {
		p.notice.missing = false
		s.notices.missing.Add(-1)
		s.pause.signalLocked()
	}
	if !p.notice.pending || now < p.notice.deadline {
		return
	}
	p.notice.pending = false
	p.notice.missing = true
	s.notices.missing.Add(1)
	s.o.Observer.Happened(EventReceiptMissing)
}
