package mongogate

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// patience is the context of a command that waits for admission: done when its
// client has gone. Watching begins when the limiter first asks for Done, so
// that commands that need not wait cost nothing. It belongs to one goroutine,
// and [patience.end] must follow each use.
type patience struct {
	conn    net.Conn
	before  func() error  // sends what is decided: what is waited for may depend on it
	err     error         // of before
	watched chan struct{} // closed when the watcher returned; nil = none runs
	gone    chan struct{} // closed when the client has gone
}

// Deadline implements [context.Context].
func (p *patience) Deadline() (at time.Time, ok bool) { return time.Time{}, false }

// Value implements [context.Context].
func (p *patience) Value(any) any { return nil }

// Err implements [context.Context].
func (p *patience) Err() error {
	select {
	case <-p.gone:
		return context.Canceled
	default:
		return nil
	}
}

// Done implements [context.Context]. The first call sends what is decided and
// starts to watch.
func (p *patience) Done() <-chan struct{} {
	if p.watched != nil {
		return p.gone
	}
	p.gone = make(chan struct{})
	p.watched = make(chan struct{})
	p.err = p.before()
	go p.watch()
	return p.gone
}

// watch waits until the client has gone or the read deadline passes.
func (p *patience) watch() {
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
	err = raw.Read(peerGone)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		close(p.gone)
	}
}

// end stops watching. It reports whether the read deadline was touched, and
// the error of sending what was decided.
func (p *patience) end() (touched bool, err error) {
	if p.watched == nil {
		return false, nil
	}
	_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	<-p.watched
	p.watched = nil
	return true, p.err
}

// awaitRoom waits until one of too many requests was answered. A client that
// has gone is waited for no longer than one that lingers.
func (ses *session) awaitRoom() error {
	// What is decided must be on its way, or no reply would ever make room.
	if err := ses.flush(); err != nil {
		return err
	}
	defer func() {
		touched, _ := ses.wait.end() // everything was sent before
		ses.in.timed = ses.in.timed || touched
	}()
	gone := ses.wait.Done()
	var late <-chan time.Time
	for {
		select {
		case <-ses.pend.room:
			return nil
		case <-ses.ended:
			return errBackendGone
		case <-gone:
			gone, late = nil, time.After(ses.s.linger)
		case <-late:
			return errClientGone
		}
	}
}
