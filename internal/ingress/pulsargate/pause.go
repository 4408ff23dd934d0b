package pulsargate

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
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
	s     *session
	on    atomic.Bool // also in a drain
	lasts bool
	began int64 // monotonic ns
	tell  bool  // the client is to be told
	timer *time.Timer
	why
}

// beginLocked begins a pause.
func (p *pause) beginLocked(now int64, because why) relay.Action {
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
	s := p.s
	p.why, p.lasts, p.began, p.tell = because, true, now, because.producer != nil && s.notices.on
	p.on.Store(true)
	s.srv.paused.Add(1)
	o := s.o.Observer
	if because.kind == pausePending || because.kind == pauseRoom { // others were counted when they were decided
		o.Limited(because.producer.topic.Rule().Label, because.limit)
	}
	o.Happened(EventPaused)
	p.timer = time.AfterFunc(p.lookAgain(now), s.r.Wake)
	return relay.Wait
}

// endLocked ends the pause, if there is one.
func (p *pause) endLocked() {
	p.on.Store(false)
	if !p.lasts {
		return
	}
	p.timer.Stop()
	p.s.srv.paused.Add(-1)
	p.lasts, p.why = false, why{}
}

// reads reports whether the client is read from: there is no pause, or it is
// over.
func (p *pause) reads() bool {
	s := p.s
	if !p.on.Load() && s.notices.missing.Load() == 0 {
		return true
	}
	now := s.r.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.lasts && !p.overLocked(now) {
		p.timer.Reset(p.lookAgain(now))
		return false
	}
	if p.lasts && p.producer != nil {
		s.o.Observer.Throttled(p.producer.topic.Rule().Label, p.reason.String(), time.Duration(now-p.began))
	}
	p.endLocked()
	if s.notices.missing.Load() == 0 {
		return true
	}
	p.beginLocked(now, why{kind: pauseMissing})
	return false
}

// overLocked reports whether the cause of the pause is gone.
func (p *pause) overLocked(now int64) bool {
	s := p.s
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
func (p *pause) signalLocked() {
	if p.lasts && p.overLocked(p.s.r.Now()) {
		p.s.r.Wake()
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
func (p *pause) announce() error {
	s := p.s
	s.mu.Lock()
	if !p.tell {
		s.mu.Unlock()
		return nil
	}
	p.tell = false
	to := p.producer
	to.notice.deadline, to.notice.pending, to.notice.heeded = 0, false, false
	m := pulsarwire.ThrottleProducer{RequestID: s.notices.next(to), ProducerID: to.id, Reason: p.reason}
	s.mu.Unlock()
	s.o.Observer.Happened(EventNotified)
	return s.r.Tell(pulsarwire.AppendFrame(nil, pulsarwire.TypeThrottleProducer, m.Append(nil)))
}
