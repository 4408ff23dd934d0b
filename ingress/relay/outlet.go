package relay

import (
	"net"
	"syscall"

	"github.com/admitd/admitd/ingress/nowait"
)

// outlet writes to a connection, past the scheduler where that can be; see
// package nowait. It belongs to whoever has the right to write.
type outlet struct {
	conn    net.Conn
	raw     syscall.RawConn // nil when bytes can only be written through conn
	attempt func(fd uintptr) bool
	left    []byte // of what is being written
	err     error  // of the last attempt
}

// newOutlet returns an outlet for c.
func newOutlet(c net.Conn) *outlet {
	o := &outlet{conn: c}
	if sc, ok := c.(syscall.Conn); ok && nowait.Can {
		if raw, err := sc.SyscallConn(); err == nil {
			o.raw, o.attempt = raw, o.tryWrite
		}
	}
	return o
}

// write writes all of b, or returns how much and why not more.
func (o *outlet) write(b []byte) (n int, err error) {
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
func (o *outlet) tryWrite(fd uintptr) bool {
	for len(o.left) > 0 && o.err == nil {
		var n int
		if n, o.err = nowait.Send(fd, o.left); n == 0 && o.err == nil {
			return false
		}
		o.left = o.left[n:]
	}
	return true
}
