//go:build unix

package relay

import (
	"errors"
	"syscall"
)

// canReadRaw: file descriptors can be read without blocking.
const canReadRaw = true

// rawRead reads what is there. again means that nothing is.
func rawRead(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), b)
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
