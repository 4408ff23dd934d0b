package h2

import (
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const (
	// sessionStalled is which part of the streams of a session may be stalled, that
	// is, have a part of an answer that the client has no window for.
	sessionStalled = 8
	// stalledPatience is how long a stream may be stalled beyond these bounds while
	// its session takes nothing.
	stalledPatience = time.Second
)

// stalled counts the stalled streams of all sessions of the process. Each holds a
// goroutine and a part of an answer, about 46 KiB, and mostly no permit.
var stalled = stalledCount{most: 1024, hard: 4096} //nolint:gochecknoglobals // memory is the process's

// stalledCount is a count with its bounds.
type stalledCount struct {
	n    atomic.Int64
	most int64 // beyond it, a session may have one more only while it takes something
	hard int64 // beyond it, a session may have one
}

// mayStallLocked reports whether one more stream may be stalled, and for how long at
// most if the session takes nothing meanwhile; 0 = until its deadline.
func (o *frameOutput) mayStallLocked() (time.Duration, bool) {
	n := stalled.n.Load()
	switch {
	case n >= stalled.hard && o.stalled > 0:
		return 0, false
	case o.stalled >= max(o.ss.s.o.Streams/sessionStalled, 1), n >= stalled.most && o.stalled > 0:
		return stalledPatience, true
	}
	return 0, true
}

// stallLocked waits until st is woken, and reports whether its answer may go on to
// wait: its deadline has not passed, and neither has its patience without anything
// taken by the session.
func (o *frameOutput) stallLocked(st *stream) bool {
	patience, ok := o.mayStallLocked()
	if !ok {
		st.fate = http2.ErrCodeEnhanceYourCalm
		return false
	}
	taken := o.frames
	o.stalled++
	stalled.n.Add(1)
	woken, ok := st.writing.awaitLocked(&o.ss.mu, patience)
	o.stalled--
	stalled.n.Add(-1)
	if ok && !woken && patience > 0 && o.frames == taken {
		st.fate = http2.ErrCodeEnhanceYourCalm
		return false
	}
	return ok
}
