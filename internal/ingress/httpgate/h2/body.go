package h2

import (
	"errors"
	"io"
	"net/http"
	"os"

	"golang.org/x/net/http2"
)

const (
	// streamWindow and sessionWindow are how much of bodies a client may send that
	// nobody has read, in bytes.
	streamWindow  = 1 << 20
	sessionWindow = 2 << 20
	// usualWindow is how much anybody may before anything was said.
	usualWindow = 64<<10 - 1
	// grantAfter is how much of a window is granted anew at once: a quarter.
	grantAfter = 4
	// kept bounds the buffers that are kept for another request, in bytes.
	kept = 16 << 10
)

// errGone is what becomes of a body, or an answer, when the client has gone.
var errGone = errors.New("streams: the client has gone")

// allowance is how much the client of a session may send of bodies.
type receiveWindow struct {
	granted int // bytes that it may
	owed    int // bytes that were read since it was told
}

// body is what a request carries. It is guarded by the session's mu.
type body struct {
	in       []byte
	from     int   // of in: what is not read yet
	missing  int64 // of its declared length; < 0 = none was
	may      int   // bytes that the client may send
	read     int   // bytes that were read since it was told
	finished bool  // it has sent all
	trailer  http.Header
}

// beginBody makes it an empty one.
func (b *body) beginBody() {
	b.in, b.from, b.missing, b.may, b.read = b.in[:0], 0, -1, streamWindow, 0
	b.finished, b.trailer = false, nil
}

// arriveLocked takes what came, in a frame of some size, and returns what is wrong with it.
func (st *stream) arriveLocked(data []byte, size int, last bool) http2.ErrCode {
	if size > st.may {
		return http2.ErrCodeFlowControl
	}
	st.may -= size
	st.grantLocked(size - len(data))
	if st.missing >= 0 {
		if st.missing -= int64(len(data)); st.missing < 0 || last && st.missing > 0 {
			return http2.ErrCodeProtocol
		}
	}
	if st.from > 0 && len(st.in)+len(data) > cap(st.in) {
		st.in = st.in[:copy(st.in, st.in[st.from:])]
		st.from = 0
	}
	st.in = append(st.in, data...)
	st.finished = last
	st.reading.wake()
	return http2.ErrCodeNo
}

// oweLocked counts what the client may send in the place of what is gone.
func (ss *Session) oweLocked(n int) {
	if ss.owed += n; ss.owed >= sessionWindow/grantAfter {
		_ = ss.framer.WriteWindowUpdate(0, uint32(ss.owed))
		ss.granted += ss.owed
		ss.owed = 0
	}
}

// dropLocked drops what nobody will read.
func (st *stream) dropLocked() {
	st.ss.oweLocked(len(st.in) - st.from)
	st.in, st.from = st.in[:0], 0
}

// reader is the body of a stream.
type reader stream

// Read implements [io.Reader].
func (rd *reader) Read(p []byte) (int, error) {
	st := (*stream)(rd)
	ss := st.ss
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if st.wants { // it waits to be told
		st.wants = false
		st.sayInterimLocked(appendField(nil, ":status", "100"))
	}
	for {
		switch {
		case st.gone:
			return 0, errGone
		case len(st.in) > st.from:
			return st.readLocked(p), nil
		case st.finished:
			for name := range st.r.Trailer {
				st.r.Trailer[name] = st.trailer[name]
			}
			return 0, io.EOF
		}
		ss.kickLocked()
		if _, ok := st.reading.awaitLocked(&ss.mu, 0); !ok {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// readLocked reads what is there.
func (st *stream) readLocked(p []byte) int {
	ss := st.ss
	n := copy(p, st.in[st.from:])
	if st.from += n; st.from == len(st.in) {
		st.in, st.from = st.in[:0], 0
	}
	ss.oweLocked(n)
	st.grantLocked(n)
	ss.kickLocked()
	return n
}

// grantLocked counts what the client may send in the place of what was read.
func (st *stream) grantLocked(n int) {
	if st.read += n; st.read >= streamWindow/grantAfter && !st.finished {
		_ = st.ss.framer.WriteWindowUpdate(st.id, uint32(st.read))
		st.may += st.read
		st.read = 0
	}
}

// Close implements [io.Closer]. Who closes the body is about to end the answer,
// which tells the client.
func (*reader) Close() error { return nil }
