package mongogate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/admitd/admitd/limiter"
)

// judgedMax is the longest reply, in bytes, that is held back until all of it
// is there so that it can be judged. Errors are shorter.
const judgedMax = 4 << 10

// startMin is the shortest start of a longer reply that is looked at, in bytes.
const startMin = 64

// openReply is a reply of which the end has not come.
type openReply struct {
	left  int // bytes to come; 0 = between replies
	entry *entry
	last  bool // no further reply follows for this entry
	// others is true when further replies were expected as this one came.
	others bool
	find   cursorFinder
}

// downstream reads the backend's replies and passes them on. It returns when
// either side has gone.
func (ses *session) downstream() error {
	var at openReply
	var open opener
	relay := func() (more bool, err error) {
		err = ses.relay(&at, &open)
		open.release()
		return at.left > 0 || len(ses.back.next()) > 0 || at.others, err
	}
	for {
		err := ses.back.each(relay)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !ses.draining.Load() {
			return err
		}
		if at.left == 0 && len(ses.back.next()) == 0 { // a drain ends between replies
			return io.EOF
		}
		if err := ses.backend.SetReadDeadline(time.Now().Add(lingerTimeout)); err != nil {
			return err
		}
	}
}

// relay passes on what is in the buffer.
func (ses *session) relay(at *openReply, open *opener) error {
	for len(ses.back.next()) > 0 {
		if at.left > 0 {
			if err := ses.move(at); err != nil {
				return err
			}
			continue
		}
		if ready, err := ses.begin(at, open); err != nil || !ready {
			return errors.Join(err, ses.pour())
		}
	}
	return ses.pour()
}

// move passes on, or swallows, what is there of a reply.
func (ses *session) move(at *openReply) error {
	in := ses.back
	n := min(at.left, len(in.next()))
	if at.find.active {
		if cursor, found := at.find.feed(in.next()[:n]); found {
			ses.noteCursor(at.entry, cursor)
		}
	}
	in.p += n
	at.left -= n
	if at.entry == nil {
		in.r = in.p // swallowed
		return nil
	}
	if at.left > 0 || !at.last {
		return nil
	}
	return ses.finish(at.entry)
}

// pour writes what is decided to the client.
func (ses *session) pour() error {
	in := ses.back
	if in.p == in.r {
		return nil
	}
	_, err := ses.client.Write(in.buf[in.r:in.p])
	in.r = in.p
	return err
}

// finish writes the last reply of an entry and then, in their turn, the
// answers of the gate that waited behind it.
func (ses *session) finish(e *entry) error {
	if err := ses.pour(); err != nil {
		return err
	}
	for turn := ses.pend.done(e); turn != nil; turn = ses.pend.done(turn) {
		if _, err := ses.client.Write(turn.answer); err != nil {
			return err
		}
	}
	return nil
}

// begin looks at the reply whose header is next. ready is false when more of
// it must be there first.
func (ses *session) begin(at *openReply, open *opener) (ready bool, err error) {
	in := ses.back
	b := in.next()
	if len(b) < headerLen {
		return false, nil
	}
	h, err := readHeader(b, ses.s.o.MaxMessageBytes)
	if err != nil {
		return false, fmt.Errorf("backend: %w", err)
	}
	var e *entry
	if e, at.others = ses.pend.match(h.responseTo); e == nil { // a reply to a command that wanted none
		ses.s.counters.swallowed.Add(1)
		at.left, at.entry = h.length, nil
		return true, ses.pour()
	}
	whole := len(b) >= h.length
	if !whole && (h.length <= judgedMax || e.kind == kindHello) {
		if in.full() {
			return false, fmt.Errorf("%w: hello of %d bytes", errFrame, h.length)
		}
		return false, nil
	}
	if !whole && len(b) < startMin { // the flags must be there
		return false, nil
	}
	m, parsed := parseReply(h, b, open)
	if !whole && !parsed && e.exhaust {
		if more, err := ses.widen(); more {
			return false, err
		}
	}
	more := parsed && m.op == opMsg && m.flags&flagMoreToCome != 0
	if e.streams = more; more {
		e.stream, at.others = h.id, true
	}
	ses.judge(e, &m, h.length)
	if e.kind == kindHello || e.inject != nil {
		return true, ses.substitute(h, e, &m, parsed)
	}
	at.left, at.entry, at.last = h.length, e, !more
	if !whole && h.op == opMsg && e.kind == kindCommand {
		at.find.start()
	}
	return true, nil
}

// widen makes room to see more of a reply. more is false when there is none.
func (ses *session) widen() (more bool, err error) {
	if err := ses.pour(); err != nil {
		return true, err
	}
	return ses.back.grow() || !ses.back.full(), nil
}

// parseReply finds the document in a reply, of which the end may be missing.
func parseReply(h header, b []byte, open *opener) (m message, ok bool) {
	op := h.op
	p := b[headerLen:min(len(b), h.length)]
	if op == opCompressed {
		var flags bool
		if op, p, _, flags = open.prefix(p, true); !flags {
			return m, false
		}
	}
	return parseMessage(op, p)
}

// judge ends the entry's permit by what the reply says, at its first byte, and
// keeps the ledger.
func (ses *session) judge(e *entry, m *message, length int) {
	if e.kind == kindAuth || e.kind == kindHello {
		if e.user != "" && authenticated(m.body) {
			user := e.user // the entry is used again
			ses.user.Store(&user)
		}
		return
	}
	r := readReply(m.body)
	ses.charge(e, length)
	if r.hasCursor {
		ses.noteCursor(e, r.cursor)
	}
	ses.s.ledger.ended(e.txn)
	if e.sampled {
		return
	}
	e.sampled = true
	outcome := limiter.Ignored
	switch {
	case r.overloaded:
		ses.s.counters.overloaded.Add(1)
		outcome = limiter.Dropped
	case e.fair && !r.failed:
		outcome = limiter.Success
	}
	ses.endPermit(e, outcome)
}

// endPermit ends the entry's permit. The latency of a command that took the
// client longer to send than the gate holds begins when its end was sent: the
// client's line says nothing of the backend.
func (ses *session) endPermit(e *entry, outcome limiter.Outcome) {
	began := e.sent
	if e.large {
		began = ses.uploaded.Load()
		if began == 0 { // answered before its end: no latency
			began = ses.s.gate.Now()
			if outcome == limiter.Success {
				outcome = limiter.Ignored
			}
		}
		e.permit.EndSampled(max(time.Duration(ses.s.gate.Now()-began), 1), outcome)
	}
	if e.sent > 0 && outcome == limiter.Success {
		ses.s.observe(time.Duration(ses.s.gate.Now() - began))
	}
	e.permit.End(outcome)
}

// charge reconciles the cost with the size of what was asked and answered.
func (ses *session) charge(e *entry, length int) {
	per := ses.s.o.ReplyBytesPerToken
	if per <= 0 {
		return
	}
	worth := float64(e.size+length) / float64(per)
	if worth > e.cost {
		e.permit.Charge(worth - e.cost)
		e.cost = worth // of a stream, the next reply is charged on top
	}
	e.size += length
}

// noteCursor keeps the ledger of cursors.
func (ses *session) noteCursor(e *entry, cursor int64) {
	if cursor != 0 {
		ses.s.ledger.opened(cursor, ses.s.gate.Now())
	} else if e.cursor != 0 {
		ses.s.ledger.closed(e.cursor)
	}
}

// substitute passes on a reply with another document than the backend's.
func (ses *session) substitute(h header, e *entry, m *message, parsed bool) error {
	in := ses.back
	if !parsed {
		return fmt.Errorf("%w: reply to hello, opcode %d", errFrame, h.op)
	}
	if err := ses.pour(); err != nil {
		return err
	}
	doc := e.inject
	if doc == nil {
		var err error
		doc, err = ses.s.hellos.rewrite(nil, m.body[:documentLen(m.body)], ses.backendAddr)
		if err != nil {
			ses.s.warn(ses.backendAddr, err)
			doc = appendError(nil, codeInvalidReplicaSetConfig, "InvalidReplicaSetConfig", "admitd: "+err.Error())
			m.flags &^= flagMoreToCome
			e.streams = false
		}
	}
	frame := ses.rebuild(h, in.next(), m, doc)
	in.p += h.length
	in.r = in.p
	if _, err := ses.client.Write(frame); err != nil {
		return err
	}
	if e.streams {
		return nil
	}
	return ses.finish(e)
}

// rebuild returns the reply's frame with another document. A compressed reply
// becomes a plain one.
func (ses *session) rebuild(h header, b []byte, m *message, doc []byte) []byte {
	if h.op != opCompressed {
		return replaceBody(nil, b, m, doc)
	}
	frame := newReply(h.responseTo, opMsg, doc)
	frame[headerLen+2] = byte(m.flags >> 16)
	frame[headerLen] = byte(m.flags &^ flagChecksum)
	return frame
}

// documentLen returns the length of the document at the start of b, at most
// len(b).
func documentLen(b []byte) int {
	if len(b) < 4 {
		return len(b)
	}
	return min(len(b), max(0, int(int32(binary.LittleEndian.Uint32(b)))))
}
