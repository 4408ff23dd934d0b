package clock

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// boottime reads the clock that goes on while the machine is suspended.
func boottime() (ns int64, ok bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// pin binds the calling goroutine, until it ends, to the nth allowed processor
// counted from either end: 0 is the first, 1 the last. It is best effort.
func pin(n int) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	var allowed, one unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return
	}
	found := -1
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			found = cpu
			if n == 0 {
				break
			}
		}
	}
	if found >= 0 {
		one.Set(found)
		_ = unix.SchedSetaffinity(0, &one)
	}
}
