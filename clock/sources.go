package clock

import (
	"os"
	"strings"
	"time"
)

// Sources are the clocks behind a [Guard]. Nil fields are the machine's own;
// tests bring others.
type Sources struct {
	// Monotonic is what is guarded, in nanoseconds; nil = the runtime's
	// monotonic clock.
	Monotonic func() int64
	// Boottime goes on while the machine is suspended; ok is false where there
	// is no such clock. nil = the kernel's.
	Boottime func() (ns int64, ok bool)
	// Wall is the time of day in nanoseconds; nil = the machine's.
	Wall func() int64
	// Source names the hardware behind the clock, "" when unknown; nil = what
	// the kernel says.
	Source func() string
}

func (s Sources) withDefaults(base time.Time) Sources {
	if s.Monotonic == nil {
		s.Monotonic = func() int64 { return int64(time.Since(base)) }
	}
	if s.Boottime == nil {
		s.Boottime = boottime
	}
	if s.Wall == nil {
		s.Wall = func() int64 { return time.Now().UnixNano() }
	}
	if s.Source == nil {
		s.Source = kernelSource
	}
	return s
}

// kernelSource reads the name of the current clock source, "" where there is
// no such file.
func kernelSource() string {
	const path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
	name, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}
