package relay

import (
	"crypto/tls"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pace watches something that must not stand still once it began. On the path
// of a message it costs a few atomic additions and no clock.
type progressWatch struct {
	n     atomic.Uint64 // odd while it moves
	moved atomic.Int64  // bytes

	// Only for the watch.
	last  uint64
	seen  int64
	debts time.Duration
	still time.Duration // since when no byte has moved
}

// set says whether something moves. It belongs to one goroutine at a time.
func (p *progressWatch) set(moving bool) {
	if (p.n.Load()%2 == 1) != moving {
		p.n.Add(1)
	}
}

// moving reports whether something moves.
func (p *progressWatch) moving() bool { return p.n.Load()%2 == 1 }

// look reports whether it stands still for longer than patience. What is seen
// twice at the same thing owes the time between, and every byte that moved pays
// for some of it. What is blocked by another peer owes nothing.
func (p *progressWatch) look(since, patience time.Duration, blocked bool) (stalled bool) {
	n, moved := p.n.Load(), p.moved.Load()
	if p.still += since; blocked || n != p.last || moved != p.seen {
		p.still = 0
	}
	switch {
	case blocked:
	case n%2 == 1 && n == p.last:
		p.debts += since
	default:
		p.debts -= since
	}
	p.debts = max(0, p.debts-time.Duration(moved-p.seen)*(perMiB>>20))
	p.last, p.seen = n, moved
	return p.debts > patience
}

// movedSince reports whether anything has moved since it was looked at.
func (p *progressWatch) movedSince() bool { return p.n.Load() != p.last || p.moved.Load() != p.seen }

// watch looks after all sessions of a relay.
type sessionWatch struct {
	patience atomic.Int64 // ns; the shortest of all options that were applied

	mu       sync.Mutex // guards the fields below; never held across a wait
	sessions map[*Session]struct{}
	timer    *time.Timer
	running  bool

	looks atomic.Uint64 // one more than how often was looked
}

// apart is how often is looked.
func (w *sessionWatch) apart() time.Duration {
	return min(max(time.Duration(w.patience.Load())/16, time.Millisecond), time.Second)
}

// shorten has it look as often as a session with this patience needs.
func (w *sessionWatch) shorten(patience time.Duration) {
	if old := w.patience.Load(); old == 0 || int64(patience) < old {
		w.patience.Store(int64(patience))
	}
}

// all returns the sessions.
func (w *sessionWatch) all() []*Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.sessions))
}

// add looks after s from now on.
func (w *sessionWatch) add(s *Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions == nil {
		w.sessions = map[*Session]struct{}{}
		w.looks.Store(1)
	}
	w.sessions[s] = struct{}{}
	switch {
	case w.running:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.apart(), w.look)
	default:
		w.timer.Reset(w.apart())
	}
	w.running = true
}

// size returns how many sessions it looks after.
func (w *sessionWatch) size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.sessions))
}

// remove forgets s, and reports whether it was the last.
func (w *sessionWatch) remove(s *Session) (empty bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, s)
	if len(w.sessions) == 0 {
		w.timer.Stop()
		w.running = false
	}
	return !w.running
}

// look looks at every session.
func (w *sessionWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return
	}
	w.looks.Add(1)
	for s := range w.sessions {
		w.check(s)
	}
	w.timer.Reset(w.apart())
}

// check closes what stands still: the client's connection, or the backend's.
func (w *sessionWatch) check(s *Session) {
	since, patience := w.apart(), s.o.Patience
	b := s.backend.Load()
	reading, writing := &s.up.reading, &s.client.pace
	if reading.look(since, patience, b != nil && b.pace.moving()) || writing.look(since, patience, false) {
		s.stalled.Store(true)
		if t, ok := s.raw.(*tls.Conn); ok {
			_ = t.NetConn().Close() // or it says farewell, and waits for seconds where nothing is taken
		}
		s.cut()
	}
	if b != nil && (s.down.reading.look(since, patience, writing.moving()) || b.pace.look(since, patience, false)) {
		s.stalled.Store(true)
		go b.close() // it waits for the side that reads it, perhaps in the middle of an answer that nobody takes
		s.down.wake()
	}
	breathe(s)
}

// breathe gives the permit back when the backend only waits for the client: its
// answer is not read, the rest of a message does not come, or no message comes
// where the protocol says that one must. What moves takes it again. The price is
// that the backend may still be at what lies in the buffers between them.
func breathe(s *Session) {
	reading, writing := &s.up.reading, &s.client.pace
	bound := time.Duration(0)
	if e, ok := s.p.(Ender); ok {
		bound = e.Waits()
	}
	silent := reading.still > 0 && (reading.moving() || bound > 0 && reading.still >= bound)
	unread := writing.still > 0 && writing.moving()
	if !silent && !unread {
		return
	}
	s.pause(!silent)
	if silent && reading.movedSince() || unread && writing.movedSince() { // it may not have seen the pause
		s.resume()
	}
}
