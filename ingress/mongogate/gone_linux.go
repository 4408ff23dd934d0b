package mongogate

import "golang.org/x/sys/unix"

// tcpEstablished is the state of a connection that both sides keep open.
const tcpEstablished = 1

// peerGone reports whether the other side of the socket has closed it. It is
// called whenever the socket becomes readable, which a FIN or a reset makes
// it, and looks at the state instead of reading: pipelined requests may lie
// before the FIN.
func peerGone(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false // not TCP: the wait ends by itself
	}
	return info.State != tcpEstablished
}
