package ingress

import (
	"net"
	"syscall"

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

// mostKept is how many of the process's descriptors are kept from clients at
// most; of few it is a quarter.
const mostKept = 1024

// lastDescriptor returns the number from which on descriptors are not for clients.
// The system hands out the lowest that is free, so that one as high means that
// nearly all are in use. What is kept lets gates reach their backends, and
// operators the admin port, when clients could use up all: else requests that were
// let in fail, and the backend is blamed.
func lastDescriptor() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return ^uint64(0)
	}
	return limit.Cur - min(limit.Cur/4, mostKept)
}

// descriptor returns the number of c's descriptor, 0 when it has none.
func descriptor(c net.Conn) (n uint64) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n = uint64(fd) }) // it is closed: it holds none
	return n
}
