package streams

import (
	"slices"

	"golang.org/x/net/http2"
)

// heard is the data of the ping that tells whether the client has got its answers.
var heard = [8]byte{'y', 'o', 'u', ' ', 'h', 'e', 'a', 'r'} //nolint:gochecknoglobals // constant

// dismissals are streams that are answered while their client still sends. It need
// not send the rest, and is told so once it has its answer: some clients that learn
// both at once take it for an error, and lose the answer.
type dismissals struct {
	pending []uint32 // in the order in which they were answered
	asking  bool     // a ping is under way
	asked   int      // of those pending, how many it asks for
}

// dismissLocked has the client told that it need not send the rest, once it has what
// was said before.
func (ss *Session) dismissLocked(id uint32) {
	if len(ss.pending) >= ss.s.o.Streams { // it does not answer
		ss.resetPendingLocked(1)
	}
	ss.pending = append(ss.pending, id)
	ss.askLocked()
}

// askLocked asks whether the client has got its answers, unless it is being asked.
func (ss *Session) askLocked() {
	if !ss.asking && len(ss.pending) > 0 {
		ss.asking, ss.asked = true, len(ss.pending)
		_ = ss.framer.WritePing(false, heard)
	}
}

// heardLocked dismisses those whose answers have arrived.
func (ss *Session) heardLocked() {
	ss.resetPendingLocked(ss.asked)
	ss.asking = false
	ss.askLocked()
}

// resetPendingLocked resets the first n of them.
func (ss *Session) resetPendingLocked(n int) {
	for _, id := range ss.pending[:n] {
		_ = ss.framer.WriteRSTStream(id, http2.ErrCodeNo)
	}
	ss.pending = slices.Delete(ss.pending, 0, n)
	ss.asked = max(ss.asked-n, 0)
}

// leftLocked says that the client has ended a stream by itself.
func (ss *Session) leftLocked(id uint32) {
	i := slices.Index(ss.pending, id)
	if i < 0 {
		return
	}
	ss.pending = slices.Delete(ss.pending, i, i+1)
	if i < ss.asked {
		ss.asked--
	}
}
