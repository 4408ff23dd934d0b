package pulsargate

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/pulsarwire"
)

// pauseKind says what a paused connection waits for.
type pauseKind uint8

// The kinds.
const (
	pauseMissing pauseKind = iota // the end of a throttling that was not acknowledged
	pausePending                  // half of the messages in flight to have their receipts
	pauseRoom                     // room to hold a frame
	pauseTime                     // a time: Method is Pause
)

// why is what a pause is for.
type why struct {
	kind     pauseKind
	producer *producer // nil with pauseMissing
	size     int       // bytes, of pauseRoom
	until    int64     // monotonic ns, of pauseTime and pauseRoom; 0 = no time ends it
	block
}

// pause is a time in which nothing is read from a client. All but on is guarded
// by session.mu.
type pause struct {
	on    atomic.Bool // also in a drain
	lasts bool
	began int64 // monotonic ns
	tell  bool  // the client is to be told
	timer *time.Timer
	why
}

// pauseLocked begins a pause.
func (s *session) pauseLocked(now int64, because why) relay.Action {
	switch because.kind {
	case pausePending:
		because.block = block{limit: LimitPending, reason: pulsarwire.ConnectionPendingMessagesBreach}
	case pauseRoom:
		because.reason = pulsarwire.MessageBufferSizeBreach
		if because.limit == LimitPending {
			because.reason = pulsarwire.ConnectionPendingMessagesBreach
		}
	default:
	}
	p := &s.pause
	p.why, p.lasts, p.began, p.tell = because, true, now, because.producer != nil && s.notifies()
	p.on.Store(true)
	s.srv.paused.Add(1)
	o := s.srv.o.Observer
	if because.kind == pausePending || because.kind == pauseRoom { // others were counted when they were decided
		o.Limited(because.producer.topic.meters.Load().label, because.limit)
	}
	o.Happened(EventPaused)
	p.timer = time.AfterFunc(p.lookAgain(now), s.r.Wake)
	return relay.Wait
}

// endLocked ends the pause, if there is one.
func (p *pause) endLocked(s *session) {
	p.on.Store(false)
	if !p.lasts {
		return
	}
	p.timer.Stop()
	s.srv.paused.Add(-1)
	p.lasts, p.why = false, why{}
}

// reads reports whether the client is read from: there is no pause, or it is
// over.
func (s *session) reads() bool {
	if !s.pause.on.Load() && s.notices.missing.Load() == 0 {
		return true
	}
	now := s.r.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pause
	if p.lasts && !s.overLocked(now) {
		p.timer.Reset(p.lookAgain(now))
		return false
	}
	if p.lasts && p.producer != nil {
		s.srv.o.Observer.Throttled(p.producer.topic.meters.Load().label, p.reason.String(), time.Duration(now-p.began))
	}
	p.endLocked(s)
	if s.notices.missing.Load() == 0 {
		return true
	}
	s.pauseLocked(now, why{kind: pauseMissing})
	return false
}

// overLocked reports whether the cause of the pause is gone.
func (s *session) overLocked(now int64) bool {
	p := &s.pause
	switch p.kind {
	case pauseMissing:
		return s.notices.missing.Load() == 0
	case pausePending:
		return s.room.inFlight <= s.srv.limits.Load().MaxPending/2
	case pauseRoom:
		waited := !p.producer.hold.on && now >= p.until
		return waited || s.room.full(p.size) == ""
	default:
		return now >= p.until
	}
}

// signalLocked has the client's side look again when a pause may be over.
func (s *session) signalLocked() {
	if s.pause.lasts && s.overLocked(s.r.Now()) {
		s.r.Wake()
	}
}

// lookAgain returns when to look for what nobody signals: a time, or room that
// another connection makes.
func (p *pause) lookAgain(now int64) time.Duration {
	switch p.kind {
	case pauseTime:
		return time.Duration(max(p.until-now, 1))
	case pauseRoom:
		return 20 * time.Millisecond
	default:
		return time.Second
	}
}

// announce tells a client that understands it why its connection is paused.
// There is nothing to wait for: the receipt could not be read anyway.
func (s *session) announce() error {
	notice := s.announcement()
	if notice == nil {
		return nil
	}
	s.srv.o.Observer.Happened(EventNotified)
	return s.r.Tell(notice)
}

// announcement returns what announce has to say, nil when it is nothing.
func (s *session) announcement() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pause.tell {
		return nil
	}
	s.pause.tell = false
	p := s.pause.producer
	p.notice.deadline, p.notice.pending, p.notice.heeded = 0, false, false
	m := pulsarwire.ThrottleProducer{RequestID: s.notices.next(p), ProducerID: p.id, Reason: s.pause.reason}
	return pulsarwire.AppendFrame(nil, pulsarwire.TypeThrottleProducer, m.Append(nil))
}
