package relay

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

// drainPoll is how soon a draining session looks again whether it may end. It
// doubles up to drainPollMax, so that thousands of idle sessions that wait for
// what is open elsewhere leave the processor to it.
const (
	drainPoll    = 25 * time.Millisecond
	drainPollMax = 400 * time.Millisecond
)

// DrainGrace is how long a drain waits for a client that has not sent its first
// message whole, or has not logged in: it may never.
const DrainGrace = time.Second

// drain tells the session that a drain began: who reads the client wakes up,
// and what is finished for nobody has not as long as before.
func (s *Session) drain() {
	s.life.drained.CompareAndSwap(0, int64(time.Since(s.life.began))+1)
	s.life.draining.Store(true)
	s.stayAwake()
	if l := s.backend.Load(); l != nil && s.life.leaving.Load() {
		_ = l.conn.SetReadDeadline(time.Now().Add(s.o.Linger))
		return
	}
	s.nudge()
	s.Wake()
}

// nudge has the client's side look whether a drain lets it end.
func (s *Session) nudge() { _ = s.raw.SetReadDeadline(time.Unix(1, 0)) }

// over reports whether a drain lets the session end: nothing is unanswered that
// must be waited for, no message is half read, and the protocol agrees.
func (u *clientSide) over() bool {
	open, idle := u.owes()
	switch {
	case open && !idle:
		return false
	case len(u.in.next()) > 0:
		return !u.life.greeted && u.DrainingFor() > DrainGrace
	}
	return u.p.Done(u.life.answered.Load())
}

// forget has the watch and the idle poller know a session no more that is over, and
// logs why it ended: when it ended badly as a rate, since a client that misbehaves
// comes back at once.
func (c *Relay) forget(s *Session) {
	if c.watch.remove(s) {
		c.sleepers.tidy()
	}
	name, client, cause := slog.String("ingress", c.gate.Name()), s.raw.RemoteAddr().String(), slog.Any("error", s.cause)
	s.o.Log.Debug("connection ended", name, slog.String("client", client), cause)
	if endedWell(s.cause) {
		return
	}
	if n := c.bad.Due(c.gate.Now()); n > 0 {
		s.o.Log.Info("connections ended", name, slog.Int64("connections", n), slog.String("last_client", client), slog.Any("last_error", s.cause))
	}
}

// endedWell reports whether a session ended as sessions do, or for want of a
// backend, of which its health tells.
func endedWell(cause error) bool {
	if errors.Is(cause, ErrStalled) { // was closed for it
		return false
	}
	for _, usual := range []error{
		ErrDrained, ErrClientGone, ErrTurnedAway, ErrUnreachable, ErrBackendGone,
		io.EOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET,
	} {
		if errors.Is(cause, usual) {
			return true
		}
	}
	return false
}

// end ends both connections, and the permit once nothing can be at work for it.
func (u *clientSide) end() {
	u.stayAwake() // the backend's side too: it is told how to end
	u.in.release()
	l := u.backend.Load()
	if l == nil {
		_ = u.raw.Close()
		u.End(limiter.Ignored)
		return
	}
	if errors.Is(u.cause, ErrBackendGone) {
		u.life.lost.Store(true)
	}
	u.hangUp(l)
	<-u.down.ended
	_ = u.raw.Close()
	_ = l.conn.Close()
	if u.life.lost.Load() {
		if (u.Owes() || u.many != nil && u.many.Leave()) && !u.Draining() {
			u.health.Failed(ingress.HungUp, ErrBackendGone)
		}
		u.End(limiter.Dropped)
	}
	u.End(limiter.Ignored)
	if u.down.crash != nil {
		panic(u.down.crash)
	}
	if u.down.fault != nil && !u.stalled.Load() {
		u.cause = fmt.Errorf("%w: %w", ErrBackendGone, u.down.fault)
	}
}

// hangUp ends the backend's side: at once when nobody waits for anything, and
// otherwise when what is at work has been answered.
func (u *clientSide) hangUp(l *peerWriter) {
	u.life.leaving.Store(true)
	open, idle := u.owes()
	held := u.leave()
	finish := (held || open && !idle) && !l.torn && !u.life.lost.Load()
	cancel := held && u.o.Cancel
	if finish && !cancel {
		u.sendRefusals(l)
	}
	switch {
	case finish && !cancel && held && !u.Draining():
		_ = l.conn.SetReadDeadline(time.Now().Add(u.o.Finish))
	case finish && !cancel:
		_ = l.conn.SetReadDeadline(time.Now().Add(u.o.Linger))
	case finish:
		if c, ok := u.p.(Canceler); ok {
			c.Cancel(u.Session)
		}
		u.life.hungUp.Store(true)
		_ = l.conn.Close()
	case u.Draining() && !u.life.lost.Load():
		u.life.hungUp.Store(true)
		_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // ends at the next whole message
	default:
		u.life.hungUp.Store(true)
		_ = l.conn.Close()
	}
}

// farewell ends what the client left unfinished: the backend would wait for the
// rest of it, and a permit for the backend.
func (u *clientSide) sendRefusals(l *peerWriter) {
	if e, ok := u.p.(Ender); ok {
		if b := e.LastRefusals(); b != nil {
			_ = l.conn.SetWriteDeadline(time.Now().Add(u.o.Linger)) // nobody waits for one that does not read
			_ = l.write(b)                                          // one that has gone ends the session anyway
		}
	}
}
