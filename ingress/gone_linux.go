package ingress

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CanSeePeerGone is whether [PeerGone] can tell.
const CanSeePeerGone = true

// tcpEstablished is the state of a connection that both sides keep open.
const tcpEstablished = 1

// PeerGone reports whether the other side of a TCP socket has closed it, or its
// half of it. It takes nothing from the socket, and is made to be called by
// [syscall.RawConn.Read]: a FIN or a reset makes a socket readable.
func PeerGone(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false // not TCP: the deadline ends the wait
	}
	return info.State != tcpEstablished
}

// Receive reads what came on a socket, without waiting: 0 bytes and no error when
// nothing did, [io.EOF] at the end.
func Receive(fd uintptr, p []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), p)
		switch {
		case n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case !errors.Is(err, unix.EINTR):
			return 0, os.NewSyscallError("read", err)
		}
	}
}
