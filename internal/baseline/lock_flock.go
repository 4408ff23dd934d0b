//go:build linux || darwin || freebsd || netbsd || openbsd

package baseline

import (
	"errors"
	"os"
	"syscall"
)

// reserve locks the file and reports false when somebody else has locked it.
func reserve(f *os.File) bool {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EWOULDBLOCK)
		}
	}
}
