package h2

import (
	"slices"

	"golang.org/x/net/http2"
)

// heard is the data of the ping that tells whether the client has got its answers.
var heard = [8]byte{'y', 'o', 'u', ' ', 'h', 'e', 'a', 'r'} //nolint:gochecknoglobals // constant

// earlyAnswers are streams that are answered while their client still sends. It need
// not send the rest, and is told so once it has its answer: some clients that learn
// both at once take it for an error, and lose the answer.
type earlyAnswers struct {
	framer  *http2.Framer
	most    int      // of those that wait
	pending []uint32 // in the order in which they were answered
	asking  bool     // a ping is under way
	asked   int      // of those pending, how many it asks for
}

// begin has them told by framer, which is used by who holds the session's mu.
func (d *earlyAnswers) begin(framer *http2.Framer, most int) { d.framer, d.most = framer, most }

// dismissLocked has the client told that it need not send the rest, once it has what
// was said before.
func (d *earlyAnswers) answerEarlyLocked(id uint32) {
	if len(d.pending) >= d.most { // it does not answer
		d.resetPendingLocked(1)
	}
	d.pending = append(d.pending, id)
	d.pingLocked()
}

// askLocked asks whether the client has got its answers, unless it is being asked.
func (d *earlyAnswers) pingLocked() {
	if !d.asking && len(d.pending) > 0 {
		d.asking, d.asked = true, len(d.pending)
		_ = d.framer.WritePing(false, heard)
	}
}

// heardLocked dismisses those whose answers have arrived.
func (d *earlyAnswers) pingAckedLocked() {
	d.resetPendingLocked(d.asked)
	d.asking = false
	d.pingLocked()
}

// resetPendingLocked resets the first n of them.
func (d *earlyAnswers) resetPendingLocked(n int) {
	for _, id := range d.pending[:n] {
		_ = d.framer.WriteRSTStream(id, http2.ErrCodeNo)
	}
	d.pending = slices.Delete(d.pending, 0, n)
	d.asked = max(d.asked-n, 0)
}

// leftLocked says that the client has ended a stream by itself.
func (d *earlyAnswers) leftLocked(id uint32) {
	i := slices.Index(d.pending, id)
	if i < 0 {
		return
	}
	d.pending = slices.Delete(d.pending, i, i+1)
	if i < d.asked {
		d.asked--
	}
}
