package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

// await waits until something has changed. What a client sent before it left is
// not begun.
func (u *clientSide) await() error {
	// What is decided must be on its way, or nothing would ever change.
	if err := u.flush(); err != nil {
		return err
	}
	changed := u.changed.wait()
	if changed == nil {
		return nil
	}
	told := false
	defer func() { u.changed.over(told) }()
	if u.landing() { // nobody need watch the client: it is being written to
		select {
		case <-changed:
			told = true
			return nil
		case <-u.down.gone():
			return ErrBackendGone
		}
	}
	defer func() {
		if touched, _ := u.wait.end(); touched { // everything was sent before
			u.touched()
		}
	}()
	select {
	case <-changed:
		told = true
		return nil
	case <-u.down.gone():
		return ErrBackendGone
	case <-u.wait.Done():
		return ErrClientGone
	}
}

// change is something that has changed for who waits. To tell it when nobody waits,
// as every answer does, costs one look. It has one waiter, and is told by any
// goroutine.
type broadcast struct {
	state atomic.Uint32
	way   handoff
}

// The states of a change.
const (
	changeNone uint32 = iota // since it was last waited for
	changeTold
	changeAwaited
)

// tell notes a change, and ends the wait for it.
func (c *broadcast) wake() {
	if c.state.Load() != changeTold && c.state.Swap(changeTold) == changeAwaited {
		c.way.c() <- struct{}{}
	}
}

// wait returns what tells of the next change; nil = there was one since the last
// wait. Otherwise [change.over] must follow.
func (c *broadcast) wait() <-chan struct{} {
	if c.state.CompareAndSwap(changeNone, changeAwaited) {
		return c.way.c()
	}
	c.state.Store(changeNone)
	return nil
}

// over ends a wait. told: what it waited for came.
func (c *broadcast) over(told bool) {
	switch {
	case told:
		c.state.Store(changeNone)
	case !c.state.CompareAndSwap(changeAwaited, changeNone): // it is on its way
		<-c.way.c()
	}
}

// settle sends what is decided, and lets the client be watched for as long as it
// takes.
func (u *clientSide) settle() error {
	if u.wait.admits && u.o.Queued != nil {
		u.o.Queued()
	}
	if u.timed {
		if err := u.within(0); err != nil {
			return err
		}
	}
	return u.flush()
}

// patience is the context of a message that waits: done when its client has
// gone. Watching begins when the limiter first asks for Done, so that messages
// that need not wait cost nothing. It belongs to one goroutine, and
// [patience.end] must follow each use.
type waitContext struct {
	conn    net.Conn
	before  func() error  // see clientSide.settle: what is waited for may depend on what is decided
	err     error         // of before
	watched chan struct{} // closed when the watcher returned; nil = none runs
	gone    chan struct{} // closed when the wait is over; see leave
	admits  bool          // it waits for a permit: this can be interrupted

	mu          sync.Mutex // guards the fields below
	waiting     bool
	over        bool // gone is closed
	firm        bool // it cannot be interrupted
	interrupted bool
}

// leave ends the wait, once. interrupted says that it was not the client who left.
func (p *waitContext) leave(interrupted bool) (ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waiting || p.over || interrupted && p.firm {
		return false
	}
	p.over, p.interrupted = true, interrupted
	close(p.gone)
	return true
}

// wasInterrupted reports whether the last wait ended that way.
func (p *waitContext) wasInterrupted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.interrupted
}

// await begins or ends a wait.
func (p *waitContext) await(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting = on; on {
		p.over, p.firm, p.interrupted = false, !p.admits, false
	}
}

// Deadline implements [context.Context].
func (p *waitContext) Deadline() (at time.Time, ok bool) { return time.Time{}, false }

// Value implements [context.Context].
func (p *waitContext) Value(any) any { return nil }

// Err implements [context.Context].
func (p *waitContext) Err() error {
	select {
	case <-p.gone:
		return context.Canceled
	default:
		return nil
	}
}

// Done implements [context.Context]. The first call sends what is decided and
// starts to watch.
func (p *waitContext) Done() <-chan struct{} {
	if p.watched != nil {
		return p.gone
	}
	p.gone = make(chan struct{})
	p.watched = make(chan struct{})
	p.await(true)
	p.err = p.before()
	go p.watch()
	return p.gone
}

// watch waits until the client has gone or the read deadline passes.
func (p *waitContext) watch() {
	defer close(p.watched)
	conn := p.conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	err = raw.Read(ingress.PeerGone)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		p.leave(false)
	}
}

// end stops watching. It reports whether the read deadline was touched, and
// the error of sending what was decided.
func (p *waitContext) end() (touched bool, err error) {
	if p.watched == nil {
		return false, nil
	}
	_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	<-p.watched
	p.await(false)
	p.watched = nil
	return true, p.err
}
