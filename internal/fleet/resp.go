package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Bounds of one reply of Redis. The client library allocates what a reply
// announces before it has read it.
const (
	maxBulk     = 8 << 20 // bytes of one string
	maxElements = 1 << 16 // of all arrays of one reply
	maxLine     = 64 << 10
)

// errReplyTooLarge is wrapped by the error of a connection whose peer announces
// more than a reply may hold.
var errReplyTooLarge = errors.New("fleet: redis: reply is too large")

// checkedConn is a connection to Redis. Read fails, and returns nothing of the
// reply, when a length in it is out of bounds.
type checkedConn struct {
	net.Conn

	check replyCheck
	err   error // of a check that failed; the connection is of no use any more
}

// Read implements [net.Conn].
func (c *checkedConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	if c.err = c.check.feed(p[:n]); c.err != nil {
		return 0, c.err
	}
	return n, err
}

// checkedSocket is a checkedConn without TLS: the library looks at the socket
// whether an idle connection is still open.
type checkedSocket struct {
	checkedConn
	syscall.Conn
}

// replyCheck follows the frames of a stream of replies (RESP2 and RESP3).
type replyCheck struct {
	line     []byte // of the header that is being read
	skip     int64  // bytes left of a string and its end
	pending  int64  // values that the reply still announces
	elements int64  // that the reply has announced so far
}

// feed takes the next bytes of the stream.
func (r *replyCheck) feed(p []byte) error {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(p)))
			r.skip -= n
			p = p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		if b != '\n' {
			if len(r.line) >= maxLine {
				return fmt.Errorf("%w: a line of more than %d bytes", errReplyTooLarge, maxLine)
			}
			r.line = append(r.line, b)
			continue
		}
		if err := r.header(r.line); err != nil {
			return err
		}
		r.line = r.line[:0]
	}
	return nil
}

// header takes one line, without its end.
func (r *replyCheck) header(line []byte) error {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) == 0 {
		return nil // the library will not understand it either
	}
	if r.pending == 0 {
		r.pending, r.elements = 1, 0
	}
	r.pending--
	switch line[0] {
	case '$', '=', '!':
		n, err := announced(line, maxBulk)
		if err != nil {
			return err
		}
		if n >= 0 {
			r.skip = n + 2
		}
	case '*', '~', '>':
		return r.aggregate(line, 1)
	case '%':
		return r.aggregate(line, 2)
	case '|': // attributes come before the value that they belong to
		r.pending++
		return r.aggregate(line, 2)
	}
	return nil
}

// aggregate takes the header of an array or a map, whose entries are of so many
// values.
func (r *replyCheck) aggregate(line []byte, values int64) error {
	n, err := announced(line, maxElements)
	if err != nil || n < 0 {
		return err
	}
	r.pending += n * values
	if r.elements += n * values; r.elements > maxElements {
		return fmt.Errorf("%w: more than %d elements", errReplyTooLarge, maxElements)
	}
	return nil
}

// announced returns the length in a header; -1 is that of a value that is null.
func announced(line []byte, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("%w: %.40q, at most %d", errReplyTooLarge, line, most)
	}
	return n, nil
}

// Probes of an idle connection: a peer that is gone is noticed, and what forgets
// silent connections on the way does not forget this one.
const (
	probeAfter = 30 * time.Second
	probeEvery = 5 * time.Second
	probes     = 3
)

// dialer returns what connects to Redis, over TLS unless config is nil, and checks
// what it replies.
func dialer(timeout time.Duration, config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probes}}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if config == nil {
			c, err := plain.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err //nolint:wrapcheck // the library says what it is for
			}
			if s, ok := c.(syscall.Conn); ok {
				return &checkedSocket{checkedConn{Conn: c}, s}, nil
			}
			return &checkedConn{Conn: c}, nil
		}
		c, err := (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err //nolint:wrapcheck // as above
		}
		return &checkedConn{Conn: c}, nil
	}
}
