package httpgate

import (
	"runtime"
	"sync"
)

const (
	// gatherMost bounds what is gathered for a client, in bytes: not more than it has
	// to take in StreamIdle by the least rate that is asked of anybody.
	gatherMost = 32 << 10
	// gatherLess is how long a piece may be in order to be gathered, in bytes.
	gatherLess = 8 << 10
)

// gathering is what is on its way to a client of HTTP/2. net/http flushes the
// answer of each stream by itself; gathered, those that are ready at the same time
// go out in one write. While the socket has no room nobody's write returns, so
// that deadlines are kept as without. One goroutine may write at a time, while
// another closes.
type gathering struct {
	s *socket

	mu   sync.Mutex // guards the fields below; never held across a wait for the socket
	turn sync.Cond  // something below has changed
	buf  []byte     // what nobody sends yet
	next []byte     // what buf is to be after it
	busy bool       // somebody sends
	full bool       // and waits for room
	err  error      // of sending; the last
}

// gather has the socket gather what is written from now on.
func (s *socket) gather() {
	g := &gathering{s: s}
	g.turn.L = &g.mu
	s.gathered.Store(g)
}

// write takes p, or sends it behind what was gathered when it is long.
func (g *gathering) write(p []byte) (int, error) {
	if len(p) > gatherLess {
		if err := g.settle(); err != nil {
			return 0, err
		}
		return g.s.send(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && (g.full || len(g.buf)+len(p) > gatherMost) {
		g.turn.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	g.buf = append(g.buf, p...)
	if !g.busy {
		g.busy = true
		go g.sendAll()
	}
	return len(p), nil
}

// settle waits until everything is sent.
func (g *gathering) settle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.busy {
		g.turn.Wait()
	}
	return g.err
}

// finish waits until everything is sent that the socket has room for.
func (g *gathering) finish() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.busy && !g.full {
		g.turn.Wait()
	}
}

// sendAll sends until nothing is left. Whoever is about to answer does so first.
func (g *gathering) sendAll() {
	runtime.Gosched()
	for out := g.take(nil); out != nil; {
		_, err := g.s.send(out)
		out = g.take(err)
	}
}

// take returns what is to be sent next, nil when nothing is or err tells that
// nothing can be.
func (g *gathering) take(err error) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.turn.Broadcast()
	g.err, g.full = err, false
	if g.busy = err == nil && len(g.buf) > 0; !g.busy {
		if max(cap(g.buf), cap(g.next)) > gatherLess {
			g.buf, g.next = nil, nil // an idle connection holds little
		}
		return nil
	}
	out := g.buf
	g.buf, g.next = g.next[:0], out
	return out
}

// wait is told that the socket has no room. For a long piece its writer waits.
func (g *gathering) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = g.busy
	g.turn.Broadcast()
}
