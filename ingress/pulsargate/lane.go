package pulsargate

import (
	"errors"
	"net"
	"sync/atomic"
)

// lane is the way to one peer. Whole frames are written by several goroutines,
// one at a time.
type lane struct {
	conn    net.Conn
	turn    chan struct{} // holds one token: the right to write
	writing busy
	torn    bool // half a frame was written, and nothing may follow it; with the turn
}

// errTorn is returned for what cannot be written behind half a frame. Whoever
// tore it ends the session.
var errTorn = errors.New("pulsargate: the frame before is incomplete")

// newLane returns a lane to conn.
func newLane(conn net.Conn) *lane {
	l := &lane{conn: conn, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// write writes whole frames.
func (l *lane) write(frames []byte) error {
	l.take()
	defer l.give()
	return l.send(frames)
}

// writeAll writes several frames with one system call. It consumes frames.
func (l *lane) writeAll(frames net.Buffers) error {
	l.take()
	defer l.give()
	if l.torn {
		return errTorn
	}
	l.writing.begin()
	defer l.writing.end()
	_, err := frames.WriteTo(l.conn)
	return err
}

// take waits for the right to write; closing the connection ends the wait.
func (l *lane) take() { <-l.turn }

// give returns the right to write.
func (l *lane) give() { l.turn <- struct{}{} }

// send writes on behalf of whoever has the right to.
func (l *lane) send(b []byte) error {
	if l.torn {
		return errTorn
	}
	l.writing.begin()
	defer l.writing.end()
	_, err := l.conn.Write(b)
	return err
}

// busy counts the beginnings and ends of something that may stall, so that a
// watchdog needs no clock on the path of a frame.
type busy struct{ n atomic.Uint64 }

// begin says that it starts.
func (b *busy) begin() { b.n.Add(1) }

// end says that it is over.
func (b *busy) end() { b.n.Add(1) }

// stalled reports whether the thing that went on when last was taken still goes
// on, and returns what to compare with next.
func (b *busy) stalled(last uint64) (bool, uint64) {
	n := b.n.Load()
	return n%2 == 1 && n == last, n
}
