package ingress

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// errNoSyscall is returned where a connection has no descriptor of its own to
// offer, because bytes of it are buffered in the process.
var errNoSyscall = errors.New("ingress: connection has no raw access")

// conn is a connection that has a place behind a door. It gives the place back
// when it is closed.
type conn struct {
	net.Conn
	door   *Door
	in     bool // came in; set before anyone else sees the connection
	kept   bool // it has a reserved place; see [Reserved]
	served bool // by a handler, whose end [conn.leave] tells; set as in
	closed atomic.Bool
}

// Reserved reports whether c came in on one of the places that
// [Connections.Reserved] keeps: a handler lets only those stay on it for whom it
// is kept. c is what the handler was given.
func Reserved(c net.Conn) bool {
	k, ok := c.(*conn)
	return ok && k.kept
}

// Close closes the connection and gives its place back, once.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	err := c.Conn.Close()
	c.door.counts.open.Add(-1)
	if c.served {
		c.door.o.Descriptors.Release(1) // the others go with the handler
	} else {
		c.door.o.Descriptors.Release(int64(c.door.o.PerClient))
	}
	if c.in {
		c.door.o.Observer.Closed()
	}
	return err
}

// leave gives back what descriptors were promised to the client besides its own:
// its handler has ended, and has closed them.
func (c *conn) leave() {
	if c.served {
		c.door.o.Descriptors.Release(int64(c.door.o.PerClient) - 1)
	}
}

// CloseWrite sends the end of the stream and leaves reading open, where the
// connection can do that; otherwise it returns [errors.ErrUnsupported].
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn implements [syscall.Conn] for connections without a PROXY header.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errNoSyscall
}

// In reports whether one of the networks holds a; none holds the zero address.
func In(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// NetworkBits reads client:BITS, a part of partition keys that stands for the
// network of a client, for [AppendNetwork]: 1 to 128.
func NetworkBits(part string) (bits int, ok bool) {
	text, ok := strings.CutPrefix(part, "client:")
	bits, err := strconv.Atoi(text)
	return bits, ok && err == nil && bits >= 1 && bits <= 128
}

// AppendNetwork appends the network that holds a; nothing for the zero address. Up
// to 32 bits are those of IPv4, and of IPv6 it is the /64; more than 32 are those of
// IPv6, and of IPv4 it is the address.
func AppendNetwork(b []byte, a netip.Addr, bits int) []byte {
	switch {
	case a.Is4():
		bits = min(bits, 32)
	case bits <= 32:
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil { // the zero address
		return b
	}
	return p.AppendTo(b)
}
