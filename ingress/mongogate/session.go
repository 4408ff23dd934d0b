package mongogate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Waits of a session that ends.
const (
	// lingerTimeout is how long replies are still passed on to a client that
	// sent its last request and closed its half of the connection.
	lingerTimeout = 10 * time.Second
	// drainPoll is how soon a draining session looks again whether it may end.
	// It doubles up to drainPollMax, so that thousands of idle sessions that
	// wait for one cursor leave the processor to it.
	drainPoll    = 25 * time.Millisecond
	drainPollMax = 400 * time.Millisecond
)

// session is one client connection and, once a frame is to be forwarded, the
// backend connection that belongs to it. ServeConn's goroutine reads the
// client; a second one reads the backend.
type session struct {
	s      *Server
	began  time.Time
	client net.Conn
	remote netip.Addr
	in     *inlet
	wait   patience
	pend   pending

	// Set by the client's side before the backend's goroutine starts.
	backend     net.Conn
	backendAddr string
	back        *inlet
	ended       chan struct{} // closed when the backend's goroutine returned
	crash       any           // what it panicked with; read after ended

	// Only for the client's side.
	who     client
	greeted bool
	claimed string // user of the SASL conversation that goes on
	exempt  bool
	poll    time.Duration // until a draining session looks again
	f       facts
	open    opener
	key     []byte // scratch
	out     []byte // scratch for answers

	user        atomic.Pointer[string] // who authenticated; set by the backend's side
	draining    atomic.Bool
	backendGone atomic.Bool
	uploaded    atomic.Int64 // monotonic ns when the end of the last large request was sent; 0 = it is not
}

// newSession returns a session for c.
func newSession(s *Server, c net.Conn) *session {
	ses := &session{s: s, began: time.Now(), client: c, in: newInlet(c, &s.windows)}
	ses.pend.room = make(chan struct{}, 1)
	ses.wait.conn, ses.wait.before = c, ses.flush
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		ses.remote = a.Addr().Unmap()
	}
	ses.exempt = s.exemptClient(ses.remote)
	return ses
}

// exemptClient reports whether the address is exempt.
func (s *Server) exemptClient(a netip.Addr) bool {
	for _, p := range s.o.Exempt.Clients {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// exemptName reports whether the application or driver is exempt.
func (s *Server) exemptName(c *client) bool {
	for _, p := range s.o.Exempt.Applications {
		if strings.HasPrefix(c.application, p) || strings.HasPrefix(c.driver, p) {
			return true
		}
	}
	return false
}

// userName returns the authenticated user, "" while there is none.
func (ses *session) userName() string {
	if u := ses.user.Load(); u != nil {
		return *u
	}
	return ""
}

// wake tells the session that a drain began.
func (ses *session) wake() {
	ses.draining.Store(true)
	_ = ses.client.SetReadDeadline(time.Unix(1, 0))
}

// connect dials the backend and starts reading from it, once.
func (ses *session) connect(ctx context.Context) error {
	if ses.backend != nil {
		return nil
	}
	c, addr, err := ses.s.dial(ctx)
	if err != nil {
		ses.s.warn(addr, err)
		return fmt.Errorf("mongogate: dial %s: %w", addr, err)
	}
	ses.backend, ses.backendAddr = c, addr
	ses.back = newInlet(c, &ses.s.windows)
	ses.ended = make(chan struct{})
	go ses.downstreamLoop(ctx)
	return nil
}

// downstreamLoop runs the backend's side. A panic is handed to ServeConn's
// goroutine, whose caller recovers it.
func (ses *session) downstreamLoop(ctx context.Context) {
	defer close(ses.ended)
	defer ses.client.Close()
	defer ses.backendGone.Store(true)
	defer func() { ses.crash = recover() }()
	err := ses.downstream()
	ses.s.log.DebugContext(ctx, "backend connection ended", slog.Any("remote", ses.remote), slog.Any("cause", err))
}

// close ends both connections and every permit that is still held.
func (ses *session) close() {
	ses.in.release()
	if ses.backend == nil {
		_ = ses.client.Close()
		return
	}
	outcome := limiter.Ignored
	if ses.backendGone.Load() {
		outcome = limiter.Dropped
	}
	ses.hangUp()
	<-ses.ended
	_ = ses.client.Close()
	_ = ses.backend.Close()
	ses.pend.abandon(outcome)
	if ses.crash != nil {
		panic(ses.crash)
	}
}

// hangUp ends the backend's side. While a client that closed its half of the
// connection still expects replies, they are passed on.
func (ses *session) hangUp() {
	_ = ses.client.SetWriteDeadline(time.Now().Add(lingerTimeout)) // a client that reads no more holds nothing up
	if n, monitors := ses.pend.state(); n == 0 || monitors || !ses.in.eof {
		if ses.draining.Load() {
			_ = ses.backend.SetReadDeadline(time.Unix(1, 0)) // ends at the next whole reply
			return
		}
		_ = ses.backend.Close()
		return
	}
	if half, ok := ses.backend.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = ses.backend.SetReadDeadline(time.Now().Add(lingerTimeout))
}

// idle reports whether a draining session may end: nothing is unanswered, no
// frame is half read, and nothing is open that a later command would finish.
func (ses *session) idle() bool {
	if _, monitors := ses.pend.state(); !monitors || len(ses.in.next()) > 0 {
		return false
	}
	cursors, txns := ses.s.ledger.open(ses.s.gate.Now())
	return cursors+txns == 0
}

// fill reads from the client. It returns errDrained when a drain found the
// session idle.
func (ses *session) fill() error {
	for {
		if err := ses.deadline(); err != nil {
			return err
		}
		err := ses.in.fill()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			ses.in.eof = errors.Is(err, io.EOF)
			ses.poll = 0
			return err
		}
		if !ses.draining.Load() {
			return err
		}
		if ses.idle() {
			return errDrained
		}
	}
}

// errDrained ends a session in a drain.
var errDrained = errors.New("mongogate: drained")

// deadline sets how long the next read may wait: short in a drain, bounded
// before the first frame and inside a frame, for ever between frames.
func (ses *session) deadline() error {
	d := time.Duration(0)
	draining := ses.draining.Load()
	switch {
	case draining:
		ses.poll = min(max(2*ses.poll, drainPoll), drainPollMax)
		d = ses.poll
	case ses.backend == nil && !ses.greeted: // bytes that trickle in do not extend it
		d = max(ses.s.o.HandshakeTimeout-time.Since(ses.began), time.Nanosecond)
	case len(ses.in.next()) > 0:
		d = ses.s.o.FrameTimeout
	}
	if d == 0 && !ses.in.timed {
		return nil
	}
	ses.in.timed = d > 0
	err := ses.in.within(d)
	if !draining && ses.draining.Load() { // the drain began meanwhile: its deadline was overwritten
		ses.in.timed = true
		err = ses.in.within(drainPoll)
	}
	return err
}
