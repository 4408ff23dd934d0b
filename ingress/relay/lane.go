package relay

import (
	"errors"
	"net"
)

// errTorn is returned for what cannot be written behind a part of a message.
var errTorn = errors.New("relay: the message before is incomplete")

// lane is the way to one peer. Whole messages are written by several
// goroutines, one at a time.
type lane struct {
	conn net.Conn
	out  *outlet
	turn chan struct{} // full while somebody has the right to write
	pace pace
	torn bool // part of a message was written and no more will be; with the turn
}

// newLane returns a lane to conn.
func newLane(conn net.Conn) *lane {
	return &lane{conn: conn, out: newOutlet(conn), turn: make(chan struct{}, 1)}
}

// secure goes on through conn, which speaks TLS over the one so far.
func (l *lane) secure(conn net.Conn) { l.conn, l.out = conn, newOutlet(conn) }

// take waits for the right to write; closing the connection ends the wait.
func (l *lane) take() { l.turn <- struct{}{} }

// give returns the right to write.
func (l *lane) give() { <-l.turn }

// write writes whole messages.
func (l *lane) write(b []byte) error {
	l.take()
	defer l.give()
	return l.send(b)
}

// writeAll writes several whole messages.
func (l *lane) writeAll(messages net.Buffers) error {
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
func (l *lane) send(b []byte) error {
	if l.torn {
		return errTorn
	}
	l.pace.set(true)
	n, err := l.out.write(b)
	l.pace.moved.Add(int64(n))
	l.pace.set(false)
	return err
}

// tear gives back the right to write after a part of a message.
func (l *lane) tear() {
	l.torn = true
	l.give()
}

// close closes the connection. It waits for whoever uses it at that moment.
func (l *lane) close() { _ = l.conn.Close() }
