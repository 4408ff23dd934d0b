package relay

import (
	"errors"
	"os"
	"sync"
	"time"
)

// errTired ends the loop of a side to which nothing has come for a while. It ends
// no session.
var errIdle = errors.New("relay: nothing came for a while")

// idleSides are how the sides of a session sleep. A side to which nothing has come for
// [Options.Rest] ends its goroutine, and the relay's [sleepers] watch its
// descriptor: bytes, an end or an error begin it anew. To everybody else a side
// that sleeps is one that waits for bytes. So whatever would end such a wait from
// here has to rouse it: a deadline that is moved, a connection that is closed.
type idleSides struct {
	mu    sync.Mutex // guards the field below and side.bed; taken before that of the idle poller
	never bool       // nobody sleeps any more, and no deadline is set for it
}

// within runs the next reads with a deadline d from now; 0 = none.
func (s *side) within(d time.Duration) error {
	s.due = 0
	if d <= 0 {
		return s.in.conn.SetReadDeadline(time.Time{})
	}
	return s.in.conn.SetReadDeadline(time.Now().Add(d))
}

// touched notes that somebody else has set a deadline.
func (s *side) touched() { s.timed, s.due = true, 0 }

// setIdleDeadline bounds how long the side waits awake, once in a look of the watch, since a
// deadline costs more than to look at what the watch counts. It reports whether
// there is a bound. A side that woke reads first: if it found its time over before
// that, it would lie down and wake for ever.
func (s *side) setIdleDeadline() bool {
	look := s.c.watch.looks.Load()
	if s.woken {
		s.woken = false
		return false
	}
	switch {
	case s.due == look:
		return true
	case !canSleep || s.in.raw == nil || s.o.Rest < 0 || s.anew == nil:
		return false
	}
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	if s.parking.never || s.within(s.o.Rest) != nil {
		return false
	}
	s.timed, s.due = true, look
	return true
}

// tired reports whether err says that nothing has come while the side dozed.
func (s *side) isIdle(err error) bool {
	if s.due == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	s.due = 0
	return true
}

// yawn is what a side does that is tired: it returns errTired, or nil when it waits
// on for the rest of what it has in hand, or has passed on.
func (s *side) idled(passed bool) error {
	if !passed && len(s.in.next()) == 0 {
		return errIdle
	}
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	s.freshLocked()
	return nil
}

// lie has a side sleep to which nothing has come, and reports whether it does. It
// may be awake again at once, on a goroutine of its own: whoever is told true
// must not touch the session.
func (s *side) parkIdle() bool {
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	if !s.freshLocked() {
		return false
	}
	s.bed = s.c.sleepers.add(s.in.raw, s)
	return s.bed != 0
}

// freshLocked takes back the bound of setIdleDeadline, until something was read. It reports
// false when sides do not sleep any more.
func (s *side) freshLocked() bool {
	if s.parking.never || s.within(0) != nil {
		return false
	}
	s.timed, s.woken = false, true
	return true
}

// rouse begins the side anew if it sleeps.
func (s *side) wake() {
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	s.wakeLocked()
}

// rouseFrom begins the side anew if it still sleeps by that name. It may have been
// roused since, and have lain down again: nothing has come for that sleep, and a
// side that wakes for nothing would stay awake.
func (s *side) wakeFrom(name uint64) {
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	if s.bed == name {
		s.wakeLocked()
	}
}

// rouseLocked is rouse with the lock held.
func (s *side) wakeLocked() {
	if s.bed == 0 {
		return
	}
	s.c.sleepers.remove(s.bed, s.in.raw)
	s.bed = 0
	s.anew()
}

// stayAwake has nobody sleep any more. From now on the deadlines belong to the
// drain and to the end of the session.
func (s *Session) stayAwake() {
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	if s.parking.never {
		return
	}
	s.parking.never = true
	s.up.wakeLocked()
	if l := s.backend.Load(); l != nil {
		_ = l.conn.SetReadDeadline(time.Time{}) // a connection that is closed needs none
		s.down.wakeLocked()
	}
}

// cut closes the client's connection, and tells the client's side.
func (s *Session) cut() {
	_ = s.raw.Close()
	s.up.wake()
}
