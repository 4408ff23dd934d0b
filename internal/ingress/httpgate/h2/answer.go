package h2

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// answer is what a stream says: with it the stream is an [http.ResponseWriter].
type answer struct {
	header   http.Header
	head     []byte // its fields, encoded, until they are sent
	document []byte // of a refusal, until that is sent
	status   int    // 0 = nothing was said
	left     int64  // of its body, as declared; < 0 = nothing was
	bare     bool   // it has no body
	headed   bool   // its fields were sent
	whole    bool   // all of it was sent
	last     bool   // the client is to go elsewhere for another
}

// beginAnswer makes it an empty one.
func (a *answer) beginAnswer() {
	clear(a.header)
	*a = answer{header: a.header, head: a.head[:0], document: a.document[:0], left: -1}
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (st *stream) WriteHeader(status int) {
	if st.status != 0 {
		return
	}
	st.head = appendField(st.head[:0], ":status", strconv.Itoa(status))
	st.appendFields()
	if status < http.StatusOK {
		ss := st.ss
		ss.mu.Lock()
		defer ss.mu.Unlock()
		st.sayInterimLocked(st.head)
		st.head = st.head[:0]
		ss.kickLocked()
		return
	}
	st.status = status
	st.bare = status == http.StatusNoContent || status == http.StatusNotModified || st.r.Method == http.MethodHead
	if told := st.header["Content-Length"]; len(told) > 0 && !st.bare {
		st.left, _ = strconv.ParseInt(told[0], 10, 64) // written by the gate itself
	}
	if told := st.header["Connection"]; len(told) > 0 {
		st.last = strings.EqualFold(told[0], "close")
	}
	if _, ok := st.header["Date"]; !ok {
		st.head = appendField(st.head, "Date", Date(time.Now()))
	}
}

// appendFields encodes the header, less what is meant for behind the body, and what
// HTTP/2 has no use for.
func (a *answer) appendFields() {
	for name, values := range a.header {
		if isConnection(name) || strings.HasPrefix(name, http.TrailerPrefix) {
			continue
		}
		for _, v := range values {
			a.head = appendField(a.head, name, v)
		}
	}
}

// isConnection reports whether the field with a canonical name is about a connection
// of HTTP/1.1, which HTTP/2 forbids (RFC 9113, section 8.2.2).
func isConnection(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// sayHeadLocked sends the fields, unless they were sent. last says that nothing
// follows.
func (st *stream) sayHeadLocked(last bool) {
	if len(st.head) > 0 {
		st.ss.appendBlockLocked(st.id, st.head, last)
		st.head, st.headed = st.head[:0], true
	}
}

// sayInterimLocked sends the fields of an interim answer, while there is use for them.
func (st *stream) sayInterimLocked(head []byte) {
	if !st.headed && !st.gone {
		st.ss.appendBlockLocked(st.id, head, false)
	}
}

// Write implements [http.ResponseWriter].
func (st *stream) Write(b []byte) (int, error) {
	if st.status == 0 {
		st.WriteHeader(http.StatusOK)
	}
	switch {
	case len(b) == 0:
		return 0, nil
	case st.bare && st.r.Method == http.MethodHead:
		return len(b), nil
	case st.bare:
		return 0, http.ErrBodyNotAllowed
	case st.left >= 0 && int64(len(b)) > st.left:
		return 0, http.ErrContentLength
	}
	ss := st.ss
	ss.mu.Lock()
	defer ss.mu.Unlock()
	n, err := st.sayLocked(b)
	ss.kickLocked()
	return n, err
}

// sayLocked sends a part of the body, as there is room for it.
func (st *stream) sayLocked(b []byte) (said int, err error) {
	ss := st.ss
	defer ss.passOnLocked() // it may have been its turn
	for said < len(b) {
		if st.gone || ss.failed != nil {
			return said, errGone
		}
		st.sayHeadLocked(false)
		n := min(len(b)-said, usualFrame, int(min(ss.roomLocked(), st.window)))
		if n <= 0 {
			if !ss.waitLocked(st) {
				return said, os.ErrDeadlineExceeded
			}
			continue
		}
		if st.left >= 0 {
			st.left -= int64(n)
		}
		st.whole = st.left == 0 && st.finished // otherwise somebody may read the request yet
		ss.appendDataLocked(st.id, b[said:said+n], st.whole)
		st.window -= int64(n)
		said += n
	}
	if st.whole {
		ss.closeStreamLocked(st, false)
	}
	return said, nil
}

// finish ends the answer, and says why it cannot be.
func (st *stream) finish() error {
	if st.status == 0 {
		st.WriteHeader(http.StatusOK)
	}
	ss := st.ss
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(st.document) > 0 {
		if _, err := st.sayLocked(st.document); err != nil {
			st.fate = http2.ErrCodeRefusedStream // nothing was done
			return err
		}
	}
	switch {
	case st.whole || st.gone:
		return nil
	case st.left > 0:
		return http.ErrContentLength
	}
	st.whole = true
	trailer := st.appendTrailer(nil)
	switch {
	case trailer != nil:
		st.sayHeadLocked(false)
		ss.appendBlockLocked(st.id, trailer, true)
	case len(st.head) > 0:
		st.sayHeadLocked(true)
	default:
		ss.appendDataLocked(st.id, nil, true)
	}
	if st.finished {
		ss.closeStreamLocked(st, false)
	}
	return nil
}

// appendTrailer encodes what is meant for behind the body.
func (a *answer) appendTrailer(b []byte) []byte {
	if a.bare {
		return nil
	}
	for name, values := range a.header {
		name, ok := strings.CutPrefix(name, http.TrailerPrefix)
		if !ok || !httpguts.ValidTrailerHeader(name) {
			continue
		}
		for _, v := range values {
			b = appendField(b, name, v)
		}
	}
	return b
}

// FlushError is what [http.ResponseController] calls.
func (st *stream) FlushError() error {
	if st.status == 0 {
		st.WriteHeader(http.StatusOK)
	}
	ss := st.ss
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if st.gone || ss.failed != nil {
		return errGone
	}
	if !st.bare { // of which the end comes with the head
		st.sayHeadLocked(false)
		ss.kickLocked()
	}
	return nil
}

// SetWriteDeadline is what [http.ResponseController] calls.
func (st *stream) SetWriteDeadline(t time.Time) error { return st.setDeadline(&st.writing, t) }

// SetReadDeadline is what [http.ResponseController] calls.
func (st *stream) SetReadDeadline(t time.Time) error { return st.setDeadline(&st.reading, t) }

// setDeadline moves a deadline, of who waits too.
func (st *stream) setDeadline(w *waiter, t time.Time) error {
	st.ss.mu.Lock()
	defer st.ss.mu.Unlock()
	w.until = t
	w.wake()
	return nil
}

// EnableFullDuplex is what [http.ResponseController] calls: HTTP/2 always is.
func (*answer) EnableFullDuplex() error { return nil }

// date is a moment as HTTP has it, for the second in which it is true.
type date struct {
	second int64
	text   string
}

// today is the latest date that was written. A clock that goes back makes another.
var today atomic.Pointer[date] //nolint:gochecknoglobals // the time is the same everywhere

// Date returns now as the field Date has it.
func Date(now time.Time) string {
	at := today.Load()
	if at == nil || at.second != now.Unix() {
		at = &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
		today.Store(at)
	}
	return at.text
}
