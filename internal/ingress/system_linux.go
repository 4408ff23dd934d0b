package ingress

import "golang.org/x/sys/unix"

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
