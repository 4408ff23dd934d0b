//go:build unix && !linux

package nowait

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Can is whether this package works here.
const Can = true

// Receive reads what came on a socket: 0 bytes and no error when nothing did,
// [io.EOF] at the end. p must not be empty.
func Receive(fd uintptr, p []byte) (int, error) {
	n, err := unix.Read(int(fd), p)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Send writes what there is room for on a socket: 0 bytes and no error when there
// is none. p must not be empty.
func Send(fd uintptr, p []byte) (int, error) {
	n, err := unix.Write(int(fd), p)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("write", err)
	}
	return n, nil
}

// IsQuiet reports whether a socket is open and nothing came on it. It takes
// nothing from it.
func IsQuiet(fd uintptr) bool {
	var one [1]byte
	_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return errors.Is(err, unix.EAGAIN)
}
