package ingress

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// peekRaw waits for the first byte and leaves it where it is. ok is false for a
// connection without a descriptor.
func peekRaw(c net.Conn) (b byte, err error, ok bool) { //nolint:revive // ok says whether there is an error to look at
	sc, is := c.(syscall.Conn)
	if !is {
		return 0, nil, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, nil, false //nolint:nilerr // its bytes are buffered: they are read another way
	}
	var buf [1]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK)
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err == nil && failed == nil && n == 0 {
		failed = io.EOF
	}
	return buf[0], errors.Join(err, failed), true
}
