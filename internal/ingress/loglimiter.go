package ingress

import (
	"sync/atomic"
	"time"
)

// seldomApart is the time between two lines of a [LogLimiter].
const seldomApart = time.Second

// LogLimiter says when to log what may happen often: once a second, with how often it
// has happened since. The zero value is ready to use, and safe for concurrent use.
type LogLimiter struct {
	untold atomic.Int64
	told   atomic.Int64 // monotonic ns of the last line; 0 = never
}

// Due notes that it has happened again as of now, a gate's clock. A line is due for
// all n of them when n is not 0.
func (s *LogLimiter) Due(now int64) (n int64) {
	s.untold.Add(1)
	last := s.told.Load()
	if last != 0 && now-last < int64(seldomApart) || !s.told.CompareAndSwap(last, now) {
		return 0
	}
	return s.untold.Swap(0)
}
