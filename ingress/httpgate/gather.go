package httpgate

import (
	"runtime"
	"sync"
)

// gatherMost is how much is gathered for a client before it is sent, in bytes.
const gatherMost = 4 << 10

// gathering is what is on its way to a client of HTTP/2. net/http flushes the
// answer of each stream by itself; gathered, those that are ready at the same time
// go out in one write. More than gatherMost is sent by its writer, which waits for
// the client then as it would without.
type gathering struct {
	s *socket

	mu      sync.Mutex // guards the fields below; never held across a wait for the socket
	turn    sync.Cond  // something below has changed
	buf     []byte     // what nobody sends yet
	spare   []byte     // what buf is to be next
	coming  bool       // sendLater will look at buf
	sending bool       // somebody sends what was in it before
	full    bool       // and waits for room
	err     error      // of sending; the last
}

// gather has the socket gather what is written from now on.
func (s *socket) gather() {
	g := &gathering{s: s}
	g.turn.L = &g.mu
	s.gathered.Store(g)
}

// write takes p, and sends it with what was gathered when that is enough.
func (g *gathering) write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(p) >= gatherMost {
		if g.flushLocked(); g.err != nil {
			return 0, g.err
		}
		n, err := g.sendLocked(p)
		g.err = nil // what is left of p its writer has
		return n, err
	}
	if g.err != nil {
		return 0, g.err
	}
	g.buf = append(g.buf, p...)
	switch {
	case len(g.buf) >= gatherMost:
		if g.flushLocked(); g.err != nil {
			return 0, g.err
		}
	case !g.coming:
		g.coming = true
		go g.sendLater()
	}
	return len(p), nil
}

// sendLater sends what was gathered once whoever is about to answer has done so.
func (g *gathering) sendLater() {
	runtime.Gosched()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coming = false
	g.flushLocked()
	g.turn.Broadcast()
}

// flushLocked sends what was gathered until nothing is left. The lock is let go of
// meanwhile.
func (g *gathering) flushLocked() {
	for g.sending {
		g.turn.Wait()
	}
	if g.err != nil || len(g.buf) == 0 {
		return
	}
	out := g.buf
	g.buf, g.spare = g.spare[:0], nil
	_, _ = g.sendLocked(out) // g.err tells
	g.spare = out
}

// sendLocked sends p. The lock is let go of meanwhile.
func (g *gathering) sendLocked(p []byte) (n int, err error) {
	g.sending = true
	g.mu.Unlock()
	n, err = g.s.send(p)
	g.mu.Lock()
	g.sending, g.full, g.err = false, false, err
	g.turn.Broadcast()
	return n, err
}

// finish waits until everything is sent that the socket has room for.
func (g *gathering) finish() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for (g.coming || g.sending) && !g.full && g.err == nil {
		g.turn.Wait()
	}
}

// wait is told that the socket has no room.
func (g *gathering) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = true
	g.turn.Broadcast()
}
