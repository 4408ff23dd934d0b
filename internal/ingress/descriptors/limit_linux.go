package descriptors

import (
	"math"

	"golang.org/x/sys/unix"
)

// ofProcess returns how many descriptors the process may have.
func ofProcess() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}
