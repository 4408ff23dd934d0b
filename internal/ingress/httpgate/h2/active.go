package h2

import (
	"os"
	"time"

	"golang.org/x/net/http2"
)

// anyStream is a number that no stream reaches.
const anyStream = 1<<31 - 1

// parting is the data of the ping that tells whether the client knows that it is to
// go elsewhere.
var parting = [8]byte{'g', 'o', 'o', 'd', ' ', 'b', 'y', 'e'} //nolint:gochecknoglobals // constant

// traffic is what is under way on a session.
type activeStreams struct {
	streams map[uint32]*stream // that are open, by their number
	running int                // requests with a goroutine, whether their streams are open or not
	last    uint32             // the latest stream that the client began
	closed  [64]endedStream    // streams that ended last
	ended   int                // how many did
	idle    time.Time          // since when nothing is under way, if nothing is

	away  bool // the client was told to go elsewhere
	final bool // and that nothing more is taken
	over  bool // nothing is under way after that
	said  bool // the client was told why the session ends
}

// ending is a stream that has ended.
type endedStream struct {
	id  uint32
	cut bool // by the gate: the client may not have known
}

// begin makes it that of a session that begins.
func (tr *activeStreams) begin(now time.Time) { tr.streams, tr.idle = map[uint32]*stream{}, now }

// openStream makes st one of those that are open, before its goroutine runs.
func (ss *Session) openStream(st *stream) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.streams[st.id] = st
	ss.running++
	ss.work.Add(1)
	st.window = int64(ss.initial)
}

// closeStreamLocked has st be open no more. cut says that the client was not there yet.
func (ss *Session) closeStreamLocked(st *stream, cut bool) {
	if st.closed {
		return
	}
	st.closed = true
	delete(ss.streams, st.id)
	ss.rememberLocked(st.id, cut)
	if ss.final && len(ss.streams) == 0 {
		ss.stopLocked()
	}
}

// rememberLocked remembers for a while that a stream has ended.
func (ss *Session) rememberLocked(id uint32, cut bool) {
	ss.closed[ss.ended%len(ss.closed)] = endedStream{id, cut}
	ss.ended++
}

// recallLocked reports whether a stream is known to have ended, and how.
func (ss *Session) recallLocked(id uint32) (cut, known bool) {
	for _, e := range ss.closed {
		if e.id == id {
			return e.cut, true
		}
	}
	return false, false
}

// resetLocked ends a stream that the client has used wrongly, and tells it.
func (ss *Session) resetLocked(id uint32, code http2.ErrCode) {
	if st := ss.streams[id]; st != nil {
		ss.closeStreamLocked(st, true)
		st.leaveLocked()
	} else {
		ss.rememberLocked(id, true)
	}
	_ = ss.framer.WriteRSTStream(id, code)
	ss.kickLocked()
}

// underWay returns how many requests are.
func (ss *Session) underWay() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.streams)
}

// Retire tells the client to go elsewhere. What it has asked until it knows that
// is served, and the session ends with the last answer. One that has just begun is
// given a moment, in which its first request is on its way.
func (ss *Session) Retire() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if left := lastRefusals - time.Since(ss.began); ss.last == 0 && left > 0 && !ss.away {
		time.AfterFunc(left, ss.Retire)
		return
	}
	ss.retireLocked()
}

// retireLocked is Retire, now.
func (ss *Session) retireLocked() {
	if ss.away {
		return
	}
	ss.away = true
	_ = ss.framer.WriteGoAway(anyStream, http2.ErrCodeNo, nil)
	_ = ss.framer.WritePing(false, parting)
	ss.kickLocked()
	time.AfterFunc(lastRefusals, func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.concludeLocked()
	})
}

// concludeLocked takes nothing more: the client knows, or has had the time to.
func (ss *Session) concludeLocked() {
	if ss.final {
		return
	}
	ss.away, ss.final = true, true
	_ = ss.framer.WriteGoAway(ss.last, http2.ErrCodeNo, nil)
	ss.kickLocked()
	if len(ss.streams) == 0 {
		ss.stopLocked()
	}
}

// stopLocked ends the session, in which nothing is under way any more.
func (ss *Session) stopLocked() {
	ss.over, ss.said = true, true
	ss.resetPendingLocked(len(ss.pending)) // or they would send until the connection is closed
	ss.kickLocked()
	_ = ss.SetReadDeadline(time.Unix(1, 0)) // fails only when closed, which ends it too
}

// dueLocked returns until when something is to come where a frame begins, and an
// error when it should have.
func (ss *Session) dueLocked(now time.Time) (time.Time, error) {
	patience := ss.s.bounds.Load().IdleTimeout
	if ss.over {
		return time.Time{}, os.ErrDeadlineExceeded
	}
	if len(ss.streams) > 0 || ss.running > 0 {
		return now.Add(patience), nil // to look again
	}
	until := ss.idle.Add(patience)
	if now.Before(until) {
		return until, nil
	}
	ss.concludeLocked()
	return time.Time{}, os.ErrDeadlineExceeded
}
