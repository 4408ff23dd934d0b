package pulsargate

import (
	"time"

	"github.com/admitd/admitd/pulsarwire"
)

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
func (s *session) noticeLocked(p *producer, now int64) []byte {
	if !p.notice.due {
		return nil
	}
	p.notice.due = false
	if !s.notifies() || p.notice.missing || len(p.held) == 0 {
		return nil
	}
	pause := time.Duration(0)
	if !p.reason.ConnectionLevel() {
		pause = s.backlogLocked(p, now)
		if p.notice.heeded && now+int64(pause) <= p.notice.until {
			return nil // it waits for long enough already
		}
	}
	delete(s.notices, p.notice.id)
	s.noticeID++
	m := pulsarwire.ThrottleProducer{RequestID: s.noticeID, ProducerID: p.id, Reason: p.reason}
	p.notice.id, p.notice.deadline, p.notice.heeded = m.RequestID, 0, false
	if pause > 0 {
		m.PauseMillis = uint64((pause + time.Millisecond - 1) / time.Millisecond)
		p.notice.pending = true
		p.notice.deadline, p.notice.until = now+int64(s.srv.o.ReceiptWait), now+int64(pause)
	}
	s.notices[m.RequestID] = p
	s.srv.o.Observer.Happened(EventNotified)
	return pulsarwire.AppendFrame(nil, pulsarwire.TypeThrottleProducer, m.Append(nil))
}

// backlogLocked returns for how long a client should send nothing: until the
// limit lets go of the last message that is held, not just of the first, or what
// is held would grow with every pause.
func (s *session) backlogLocked(p *producer, now int64) time.Duration {
	pause := max(time.Duration(p.resumeAt-now), 0)
	if p.meter == nil {
		return pause
	}
	cost := 0.0
	for i := range p.held {
		if f := &p.held[i]; !f.control {
			cost += p.meter.cost(f.send.NumMessages, f.size)
		}
	}
	return max(pause, p.meter.bucket.Wait(now, cost))
}

// notifies reports whether this client is sent ThrottleProducer at all.
func (s *session) notifies() bool { return s.throttling && s.srv.o.Method == Auto }

// acknowledged records a ThrottleProducerReceipt. It sits behind the messages
// that the client had sent before, which is why the gate goes on reading, and
// holding, while it waits.
func (s *session) acknowledged(now int64, id uint64) {
	event := EventReceiptUnknown
	s.mu.Lock()
	if p := s.notices[id]; p != nil {
		delete(s.notices, id)
		event = EventReceipt
		if p.notice.deadline > 0 && now > p.notice.deadline {
			event = EventReceiptLate
		}
		if p.notice.id == id {
			p.notice.pending, p.notice.heeded = false, true
		}
	}
	s.mu.Unlock()
	s.srv.o.Observer.Happened(event)
}

// checkReceiptLocked pauses the connection when a receipt has not come in time,
// until the time is over that the client was told to wait.
func (s *session) checkReceiptLocked(p *producer, now int64) {
	if p.notice.missing && now >= p.resumeAt {
		p.notice.missing = false
		s.missing.Add(-1)
		s.signal()
	}
	if !p.notice.pending || now < p.notice.deadline {
		return
	}
	p.notice.pending = false
	p.notice.missing = true
	s.missing.Add(1)
	s.srv.o.Observer.Happened(EventReceiptMissing)
}

// pauseKind says what a paused connection waits for.
type pauseKind uint8

// The kinds.
const (
	pauseMissing pauseKind = iota // the end of a throttling that was not acknowledged
	pausePending                  // half of the messages in flight to have their receipts
	pauseRoom                     // room to hold a frame
	pauseTime                     // a time: Method is Pause
)

// pause is why nothing is read from a client.
type pause struct {
	kind     pauseKind
	producer *producer
	size     int   // bytes, of pauseRoom
	until    int64 // monotonic ns, of pauseTime
	cause    verdict
}

// pauseLocked prepares for a pause that begins when wait is called.
func (c *clientSide) pauseLocked(now int64, p *producer, why pause) action {
	why.producer = p
	switch why.kind {
	case pausePending:
		why.cause = verdict{limit: LimitPending, reason: pulsarwire.ConnectionPendingMessagesBreach}
	case pauseRoom:
		why.cause.reason = pulsarwire.MessageBufferSizeBreach
		if why.cause.limit == LimitPending {
			why.cause.reason = pulsarwire.ConnectionPendingMessagesBreach
		}
	default:
	}
	why.until = max(why.until, now)
	if why.kind != pauseTime { // decide has counted that one
		c.srv.o.Observer.Limited(p.topic.meters.Load().label, why.cause.limit)
	}
	c.pause = why
	return actPause
}

// wait implements inspector: it returns when the cause of the pause is gone.
func (c *clientSide) wait() error {
	begin := c.srv.gate.Now()
	c.paused.Store(true)
	c.srv.paused.Add(1)
	c.srv.o.Observer.Happened(EventPaused)
	defer func() {
		c.srv.paused.Add(-1)
		c.paused.Store(false)
	}()
	if err := c.announce(); err != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !c.mayResume() {
		timer.Reset(c.lookAgain())
		select {
		case <-c.room:
		case <-timer.C:
		case <-c.drain:
			return errDraining
		case <-c.done:
			return errOver
		}
	}
	if p := c.pause.producer; p != nil {
		c.srv.o.Observer.Throttled(p.topic.meters.Load().label, c.pause.cause.reason.String(),
			time.Duration(c.srv.gate.Now()-begin))
	}
	return nil
}

// announce tells a client that understands it why its connection is paused.
// There is nothing to wait for: the receipt could not be read anyway.
func (c *clientSide) announce() error {
	p := c.pause.producer
	if p == nil || !c.notifies() {
		return nil
	}
	c.mu.Lock()
	delete(c.notices, p.notice.id)
	c.noticeID++
	p.notice.id, p.notice.deadline, p.notice.pending, p.notice.heeded = c.noticeID, 0, false, false
	c.notices[c.noticeID] = p
	m := pulsarwire.ThrottleProducer{RequestID: c.noticeID, ProducerID: p.id, Reason: c.pause.cause.reason}
	c.mu.Unlock()
	c.srv.o.Observer.Happened(EventNotified)
	return c.client.write(pulsarwire.AppendFrame(nil, pulsarwire.TypeThrottleProducer, m.Append(nil)))
}

// mayResume reports whether the cause of the pause is gone.
func (c *clientSide) mayResume() bool {
	limits := c.srv.limits.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.pause.kind {
	case pauseMissing:
		return c.missing.Load() == 0
	case pausePending:
		return c.inFlight <= limits.MaxPending/2
	case pauseRoom:
		waited := !c.pause.producer.releasing && c.srv.gate.Now() >= c.pause.until
		return waited || c.fullLocked(c.pause.size) == ""
	default:
		return c.srv.gate.Now() >= c.pause.until
	}
}

// lookAgain returns when to look for what nobody signals: a time, or room that
// another connection makes.
func (c *clientSide) lookAgain() time.Duration {
	switch c.pause.kind {
	case pauseTime:
		return time.Duration(max(c.pause.until-c.srv.gate.Now(), 1))
	case pauseRoom:
		return 20 * time.Millisecond
	default:
		return time.Second
	}
}
