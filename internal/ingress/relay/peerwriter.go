package relay

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// errTorn is returned for what cannot be written behind a part of a message.
var errTorn = errors.New("relay: the message before is incomplete")

// lane is the way to one peer. Whole messages are written by several
// goroutines, one at a time.
type peerWriter struct {
	wants atomic.Int32 // who has the right to write, and who waits for it
	torn  bool         // part of a message was written and no more will be; with the right to write
	next  handoff      // hands it to one of those who wait
	pace  progressWatch
	connWriter
}

// take waits for the right to write; closing the connection ends the wait. It
// costs an atomic addition when nobody else writes, a third of what a channel does.
func (l *peerWriter) take() {
	if l.wants.Add(1) > 1 {
		<-l.next.c()
	}
}

// give returns the right to write.
func (l *peerWriter) give() {
	if l.wants.Add(-1) > 0 {
		l.next.c() <- struct{}{}
	}
}

// parcel is a channel that holds one value. Few sessions ever need it, and it takes
// 96 bytes: the first to ask makes it. It is safe for concurrent use.
type handoff struct{ made atomic.Pointer[chan struct{}] }

// c returns the channel.
func (p *handoff) c() chan struct{} {
	if c := p.made.Load(); c != nil {
		return *c
	}
	c := make(chan struct{}, 1)
	p.made.CompareAndSwap(nil, &c)
	return *p.made.Load()
}

// write writes whole messages.
func (l *peerWriter) write(b []byte) error {
	l.take()
	defer l.give()
	return l.send(b)
}

// writeAll writes several whole messages.
func (l *peerWriter) writeAll(messages net.Buffers) error {
	l.take()
	defer l.give()
	if l.torn {
		return errTorn
	}
	l.pace.set(true)
	n, err := messages.WriteTo(l.conn)
	l.pace.moved.Add(n)
	l.pace.set(false)
	return err
}

// send writes on behalf of whoever has the right to.
func (l *peerWriter) send(b []byte) error {
	if l.torn {
		return errTorn
	}
	l.pace.set(true)
	n, err := l.connWriter.write(b)
	l.pace.moved.Add(int64(n))
	l.pace.set(false)
	return err
}

// tear gives back the right to write after a part of a message.
func (l *peerWriter) tear() {
	l.torn = true
	l.give()
}

// close closes the connection. It waits for whoever uses it at that moment.
func (l *peerWriter) close() { _ = l.conn.Close() }

// connWriter writes to a connection, past the scheduler where that can be; see
// package nowait. It belongs to whoever has the right to write.
type connWriter struct {
	raw     syscall.RawConn // nil when bytes can only be written through conn
	attempt func(fd uintptr) bool
	left    []byte // of what is being written
	err     error  // of the last attempt
	conn    net.Conn
}

// begin writes to c. raw is [rawOf] it.
func (o *connWriter) begin(c net.Conn, raw syscall.RawConn) {
	*o = connWriter{conn: c, raw: raw}
	if raw != nil {
		o.attempt = o.tryWrite
	}
}

// write writes all of b, or returns how much and why not more.
func (o *connWriter) write(b []byte) (n int, err error) {
	if o.raw == nil {
		return o.conn.Write(b)
	}
	o.left, o.err = b, nil
	if err = o.raw.Write(o.attempt); err == nil {
		err = o.err
	}
	n = len(b) - len(o.left)
	o.left = nil
	return n, err
}

// tryWrite writes until nothing is left. It returns false to wait until the
// connection takes more.
func (o *connWriter) tryWrite(fd uintptr) bool {
	for len(o.left) > 0 && o.err == nil {
		var n int
		if n, o.err = nowait.Send(fd, o.left); n == 0 && o.err == nil {
			return false
		}
		o.left = o.left[n:]
	}
	return true
}
