//go:build unix && !linux

package ingress

import (
	"errors"
	"syscall"
)

// Sockets tells that descriptors of connections can be read and written without
// blocking.
const Sockets = true

// ReadNow reads what is there from the descriptor of a connection. again means
// that nothing is; n = 0 without it or an error is the end of the stream.
func ReadNow(fd uintptr, b []byte) (n int, again bool, err error) {
	return transfer(syscall.Read, fd, b)
}

// WriteNow writes what fits to the descriptor of a connection. again means that
// nothing does.
func WriteNow(fd uintptr, b []byte) (n int, again bool, err error) {
	return transfer(syscall.Write, fd, b)
}

// transfer moves bytes of a socket.
func transfer(call func(int, []byte) (int, error), fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = call(int(fd), b)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, true, nil
		case err != nil:
			return 0, false, err
		}
		return n, false, nil
	}
}
