//go:build unix

package upstream

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isQuiet looks at the socket without waiting and without taking anything.
func isQuiet(fd uintptr) bool {
	var one [1]byte
	_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return errors.Is(err, unix.EAGAIN)
}
