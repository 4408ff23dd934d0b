package ingress

import (
	"syscall"
	"unsafe"
)

// Sockets tells that descriptors of connections can be read and written without
// blocking.
const Sockets = true

// ReadNow reads what is there from the descriptor of a connection. again means
// that nothing is; n = 0 without it or an error is the end of the stream.
func ReadNow(fd uintptr, b []byte) (n int, again bool, err error) {
	return transfer(syscall.SYS_READ, fd, b)
}

// WriteNow writes what fits to the descriptor of a connection. again means that
// nothing does.
func WriteNow(fd uintptr, b []byte) (n int, again bool, err error) {
	return transfer(syscall.SYS_WRITE, fd, b)
}

// transfer moves bytes of a socket. It never blocks, so the scheduler is not told
// that it may: it would hand this thread's goroutines to another thread whenever
// the kernel takes 20 µs to deliver a segment, and look for such threads all the
// time. That was a fifth of the processor
// time of a message.
func transfer(call, fd uintptr, b []byte) (n int, again bool, err error) {
	if len(b) == 0 {
		return 0, false, nil
	}
	for {
		done, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))) //nolint:gosec // kept alive by the call
		switch errno {
		case 0:
			return int(done), false, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, errno
		}
	}
}
