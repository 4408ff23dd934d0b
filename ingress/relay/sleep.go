package relay

import (
	"errors"
	"os"
	"sync"
	"time"
)

// errTired ends the loop of a side to which nothing has come for a while. It ends
// no session.
var errTired = errors.New("relay: nothing came for a while")

// rest is how the sides of a session sleep. A side to which nothing has come for
// [Options.Rest] ends its goroutine, and the corridor's [sleepers] watch its
// descriptor: bytes, an end or an error begin it anew. To everybody else a side
// that sleeps is one that waits for bytes. So whatever would end such a wait from
// here has to rouse it: a deadline that is moved, a connection that is closed.
type rest struct {
	wake func() // begins the client's side anew, and does not block; nil = that side does not sleep

	mu    sync.Mutex // guards the fields below; taken before that of the sleepers
	never bool       // nobody sleeps any more, and no deadline is set for it
	bed   [2]uint64  // by side, where it sleeps; 0 = it is awake
}

// inletOf returns what the side reads from. Only for the side itself, and while
// it sleeps.
func (s *Session) inletOf(from Side) *inlet {
	if from == Client {
		return s.up.in
	}
	return s.down.in
}

// doze bounds how long the side waits awake, once in a look of the watch, since a
// deadline costs more than to look at what the watch counts. It reports whether
// there is a bound. A side that woke reads first: if it found its time over before
// that, it would lie down and wake for ever.
func (s *Session) doze(from Side) bool {
	in, look := s.inletOf(from), s.c.watch.looks.Load()
	if in.woken {
		in.woken = false
		return false
	}
	switch {
	case in.due == look:
		return true
	case !canSleep || in.raw == nil || s.c.o.Rest < 0 || from == Client && s.rest.wake == nil:
		return false
	}
	s.rest.mu.Lock()
	defer s.rest.mu.Unlock()
	if s.rest.never || in.within(s.c.o.Rest) != nil {
		return false
	}
	in.timed, in.due = true, look
	return true
}

// tired reports whether err says that nothing has come while the side dozed.
func (in *inlet) tired(err error) bool {
	if in.due == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	in.due = 0
	return true
}

// lie has a side sleep to which nothing has come, and reports whether it does. It
// may be awake again at once, on a goroutine of its own: whoever is told true
// must not touch the session.
func (s *Session) lie(from Side) bool {
	s.rest.mu.Lock()
	defer s.rest.mu.Unlock()
	in := s.inletOf(from)
	if !s.freshLocked(in) {
		return false
	}
	s.rest.bed[from] = s.c.sleepers.add(in.raw, sleeper{s, from})
	return s.rest.bed[from] != 0
}

// yawn is what a side does that is tired: it returns errTired, or nil when it waits
// on for the rest of what it has in hand, or has passed on.
func (s *Session) yawn(from Side, passed bool) error {
	in := s.inletOf(from)
	if !passed && len(in.next()) == 0 {
		return errTired
	}
	s.rest.mu.Lock()
	defer s.rest.mu.Unlock()
	s.freshLocked(in)
	return nil
}

// freshLocked takes back the bound of doze, until something was read. It reports
// false when sides do not sleep any more.
func (s *Session) freshLocked(in *inlet) bool {
	if s.rest.never || in.within(0) != nil {
		return false
	}
	in.timed, in.woken = false, true
	return true
}

// rouse begins a side anew that sleeps.
func (s *Session) rouse(from Side) {
	s.rest.mu.Lock()
	defer s.rest.mu.Unlock()
	s.rouseLocked(from)
}

// rouseFrom begins a side anew if it still sleeps by that name. It may have been
// roused since, and have lain down again: nothing has come for that sleep, and a
// side that wakes for nothing would stay awake.
func (s *Session) rouseFrom(from Side, name uint64) {
	s.rest.mu.Lock()
	defer s.rest.mu.Unlock()
	if s.rest.bed[from] == name {
		s.rouseLocked(from)
	}
}

// rouseLocked is rouse with the lock held.
func (s *Session) rouseLocked(from Side) {
	bed := s.rest.bed[from]
	if bed == 0 {
		return
	}
	s.rest.bed[from] = 0
	s.c.sleepers.remove(bed, s.inletOf(from).raw)
	if from == Client {
		s.rest.wake()
		return
	}
	go s.down.loop()
}

// stayAwake has nobody sleep any more. From now on the deadlines belong to the
// drain and to the end of the session.
func (s *Session) stayAwake() {
	s.rest.mu.Lock()
	defer s.rest.mu.Unlock()
	if s.rest.never {
		return
	}
	s.rest.never = true
	if l := s.backend.Load(); l != nil {
		_ = l.conn.SetReadDeadline(time.Time{}) // a connection that is closed needs none
	}
	s.rouseLocked(Client)
	s.rouseLocked(Backend)
}

// cut closes the client's connection, and tells the client's side.
func (s *Session) cut() {
	_ = s.raw.Close()
	s.rouse(Client)
}
