package nowait

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Can is whether this package works here.
const Can = true

// Receive reads what came on a socket: 0 bytes and no error when nothing did,
// [io.EOF] at the end. p must not be empty.
func Receive(fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0) //nolint:gosec // the address of what is not empty
		switch errno {
		case 0:
			if n == 0 {
				return 0, io.EOF
			}
			return int(n), nil
		case syscall.EAGAIN:
			return 0, nil
		case syscall.EINTR:
		default:
			return 0, os.NewSyscallError("recv", errno)
		}
	}
}

// Send writes what there is room for on a socket: 0 bytes and no error when there
// is none. p must not be empty.
func Send(fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0) //nolint:gosec // the address of what is not empty
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EAGAIN:
			return 0, nil
		case syscall.EINTR:
		default:
			return 0, os.NewSyscallError("send", errno)
		}
	}
}

// IsQuiet reports whether a socket is open and nothing came on it. It takes
// nothing from it.
func IsQuiet(fd uintptr) bool {
	var one [1]byte
	_, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one[0])), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0) //nolint:gosec // the address of what is not empty
	return errno == syscall.EAGAIN
}
