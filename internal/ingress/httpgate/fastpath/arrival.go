package fastpath

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// soonTimeout is how long a connection is silent before somebody looks whether
// it has ended; see [doorstep.lookAt].
const soonTimeout = 2 * time.Second

// arrival is what came where a request begins.
type arrival struct {
	look  func(fd uintptr) bool // lookAt; made once
	buf   *[]byte               // what came; nil = nothing
	n     int                   // bytes of it
	asked bool                  // something began that is no session of HTTP/2
	plain *plain                // the plain request that it is; nil = it is none, or was refused
	ended error                 // why nothing more comes
}

// heads holds buffers for what comes where a request begins. A connection that
// waits holds none.
var heads = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }} //nolint:gochecknoglobals // a pool is global by nature

// next serves requests for as long as they are plain, and gives net/http what
// came when one is not.
func (d *fastConn) next(p []byte) (int, error) {
	for {
		if err := d.await(); err != nil {
			return 0, err
		}
		if d.plain == nil {
			if d.readPreface(d.Conn) {
				return 0, d.s.speak(d)
			}
			return d.handOver(p)
		}
		if err := d.serve(); err != nil {
			return 0, err
		}
	}
}

// nextSecured is next for what comes over TLS, which keeps what it has read ahead:
// only a read tells what came. It is read to where net/http wants it.
func (d *fastConn) nextSecured(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if n == 0 {
			return 0, err
		}
		if n = dropEmptyLine(p[:n]); n == 0 {
			continue
		}
		refused, err := d.meetSecured(p[:n]) // the next read fails again
		switch {
		case err != nil:
			return 0, err
		case refused:
		case d.plain == nil:
			return n, d.rearm()
		default:
			if err := d.serve(); err != nil {
				return 0, err
			}
		}
	}
}

// meetSecured is meet, after which a connection that has ended is closed.
func (d *fastConn) meetSecured(raw []byte) (refused bool, err error) {
	fine := false
	defer func() { d.unlessFine(fine) }() // deciding may panic
	refused, err = d.meet(raw)
	fine = err == nil
	return refused, err
}

// unlessFine closes a connection that can serve no more.
func (d *fastConn) unlessFine(fine bool) {
	if phase := d.phase.Load(); !fine && (phase == serving || phase == leaving) {
		_ = d.leave()
	}
}

// await refuses what is to be refused until something comes with which there is
// more to do. An error ends the connection.
func (d *fastConn) await() (err error) {
	fine := false
	defer func() { d.unlessFine(fine) }() // deciding may panic
	d.ended = nil
	err = d.sock.raw.Read(d.look)
	for ; err != nil && d.soon && errors.Is(err, os.ErrDeadlineExceeded); err = d.sock.raw.Read(d.look) {
		d.soon = false
		if err := d.SetReadDeadline(d.touched.Add(d.s.bounds.Load().IdleTimeout)); err != nil {
			return err
		}
	}
	if err == nil {
		err = d.ended
	}
	if fine = err == nil; !fine {
		err = d.sock.failed("read", err)
	}
	return err
}

// lookAt reads what came and reports whether there is more to do with it than to
// refuse it. It runs while the connection is being waited for, so that whatever
// comes from now on calls it again: having read less than there was room for, it
// need not ask for more. Only the end of the connection is missed so, when it
// came right behind a request; soonTimeout finds it.
func (d *fastConn) lookAt(fd uintptr) bool {
	buf, _ := heads.Get().(*[]byte)
	for {
		n, err := nowait.Receive(fd, *buf)
		refused := false
		all := n == len(*buf)
		if err == nil && n > 0 {
			if n = dropEmptyLine((*buf)[:n]); n == 0 {
				refused = true // there is nothing to do
			} else {
				refused, err = d.meet((*buf)[:n])
			}
		}
		switch {
		case err != nil:
			d.ended = err
			heads.Put(buf)
			return true
		case n > 0 && !refused:
			d.buf, d.n = buf, n
			return true
		case !all:
			heads.Put(buf)
			return false
		}
	}
}

// dropEmptyLine takes an empty line out that stands before a request, as some clients send
// one behind the body of the last (RFC 9112, section 2.2), and returns how much is left.
func dropEmptyLine(came []byte) int {
	if len(came) < 2 || came[0] != '\r' || came[1] != '\n' {
		return len(came)
	}
	return copy(came, came[2:])
}

// meet looks at what came where a request begins, and reports whether it was
// refused. An error ends the connection.
func (d *fastConn) meet(raw []byte) (refused bool, err error) {
	before := d.phase.Load()
	g, ok := peekHead(raw)
	if !ok {
		if framesTwice(raw) {
			_, _ = d.Write([]byte(badFraming)) // when it fails the client is gone
			return false, net.ErrClosed
		}
		return false, d.enter(before, lost)
	}
	d.asked = true
	p, _ := d.s.plains.Get().(*plain)
	b := d.s.bounds.Load()
	// In a drain too: net/http would read it and leave it unanswered.
	if g.head > b.MaxHeader || !p.parse(string(raw[:g.head]), g) || !p.visit.Takes(&p.r) {
		d.s.plains.Put(p)
		return false, d.enter(before, handed) // net/http has something to say about it
	}
	now := time.Now()
	if err = d.enter(before, serving); err != nil || d.refresh(now, b) != nil {
		return false, net.ErrClosed
	}
	p.begin(d, now, raw[g.head:])
	if !p.visit.Offer(p, &p.r) {
		d.plain = p
		return false, nil
	}
	keep := p.refused()
	d.s.plains.Put(p)
	if !keep || !d.phase.CompareAndSwap(serving, resting) {
		return true, net.ErrClosed
	}
	return true, nil
}

// serve forwards the plain request that came, after a wait in the queue if need
// be. An error ends the connection.
func (d *fastConn) serve() (err error) {
	p, keep := d.plain, false
	defer func() { // forwarding may panic
		if d.buf != nil {
			heads.Put(d.buf)
		}
		d.buf, d.plain = nil, nil
		if !keep || !d.phase.CompareAndSwap(serving, resting) {
			err = net.ErrClosed
			_ = d.leave()
		}
	}()
	keep = p.settle()
	d.s.plains.Put(p)
	return nil
}

// readPreface reports whether what came is how a client begins that speaks HTTP/2, of
// which the rest may be on its way.
func (a *arrival) readPreface(c net.Conn) bool {
	if a.asked {
		return false
	}
	for a.asked = true; a.n < len(http2.ClientPreface); {
		if !strings.HasPrefix(http2.ClientPreface, string((*a.buf)[:a.n])) {
			return false
		}
		n, err := c.Read((*a.buf)[a.n:len(http2.ClientPreface)])
		if a.n += n; err != nil {
			return false // the next read fails again
		}
	}
	return strings.HasPrefix(string((*a.buf)[:a.n]), http2.ClientPreface)
}

// first looks at how a connection begins that is net/http's otherwise.
func (d *fastConn) first(p []byte) (int, error) {
	buf, _ := heads.Get().(*[]byte)
	n, err := d.Conn.Read(*buf)
	if n == 0 {
		heads.Put(buf)
		return 0, err
	}
	if d.buf, d.n = buf, n; d.readPreface(d.Conn) {
		return 0, d.s.speak(d)
	}
	return d.handOver(p)
}

// speak serves HTTP/2 to the end of a connection, of which net/http learns no more
// than that.
func (s *Conns) speak(d *fastConn) error {
	session := s.o.Streams.Begin(d.Conn, nil, (*d.buf)[:d.n])
	heads.Put(d.buf)
	d.buf = nil
	if session != nil {
		d.session.Store(session)
		if d.phase.CompareAndSwap(lost, speaking) {
			s.open.Remove(d)
			session.Run()
		} else {
			_ = session.Close()
		}
	}
	_ = d.leave()
	return io.EOF
}

// handOver gives what came to net/http.
func (d *fastConn) handOver(p []byte) (int, error) {
	came := (*d.buf)[:d.n]
	n := copy(p, came)
	if n < len(came) {
		d.pending = bytes.Clone(came[n:])
	}
	heads.Put(d.buf)
	d.buf = nil
	return n, d.rearm()
}

// rearm gives net/http HeaderTimeout for the rest of a head.
func (d *fastConn) rearm() error {
	if d.touched.IsZero() {
		return nil // net/http has set it
	}
	d.touched, d.soon = time.Time{}, false
	return d.SetReadDeadline(time.Now().Add(d.s.bounds.Load().HeaderTimeout))
}

// refresh moves the deadlines of a connection where a request begins, for its
// answer and for the wait for the next: by net/http's measure that begins with
// the answer's end, but whatever takes longer than a moment moves them again.
func (d *fastConn) refresh(now time.Time, b *Bounds) error {
	if now.Sub(d.touched) <= min(time.Second, b.WriteTimeout/8, b.IdleTimeout/8) {
		return nil
	}
	patience := b.IdleTimeout
	if d.soon = d.tls == nil && patience > soonTimeout; d.soon {
		patience = soonTimeout
	}
	d.touched = now
	if err := d.SetReadDeadline(now.Add(patience)); err != nil {
		return err
	}
	return d.SetWriteDeadline(now.Add(b.WriteTimeout))
}
