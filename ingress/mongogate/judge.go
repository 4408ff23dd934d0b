package mongogate

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

const (
	// judgedMax is the longest reply, in bytes, that is held back until all of
	// it is there so that it can be judged. Errors are shorter.
	judgedMax = 4 << 10
	// startMin is the shortest start of a longer reply that is looked at, in
	// bytes: its flags must be there.
	startMin = 64
)

// judge is what the backend's side needs from reply to reply.
type judge struct {
	opener opener
	find   cursorFinder
}

// Landed implements [relay.Protocol].
func (ses *session) Landed(r *relay.Session, m relay.Message) (relay.Verdict, error) {
	h, err := readHeader(m.Bytes, ses.s.o.MaxMessageBytes)
	if err != nil {
		return relay.Verdict{}, fmt.Errorf("backend: %w", err)
	}
	a := &ses.asked
	ses.judge.find.active = false
	if !r.Owes() || (h.responseTo != a.id && (!a.streams || h.responseTo != a.stream)) {
		return ses.strayed(), nil
	}
	ses.unsure.Store(0) // servers answer in order
	if a.kind == kindHello && !m.Whole() {
		return relay.Verdict{Action: relay.More}, tooLong(m.Final, h.length)
	}
	msg, parsed := parseReply(h, m.Bytes, &ses.judge.opener)
	defer ses.judge.opener.release()
	if !parsed && a.exhaust && !m.Final {
		return relay.Verdict{Action: relay.More}, nil
	}
	more := parsed && msg.op == opMsg && msg.flags&flagMoreToCome != 0
	if a.streams = more; more {
		a.stream = h.id
	}
	ses.judged(r, &msg, h.length)
	if a.kind == kindHello || a.inject != nil {
		return ses.substitute(r, h, m.Bytes, &msg, parsed)
	}
	if !m.Whole() && h.op == opMsg && a.kind == kindCommand {
		ses.judge.find.start()
		ses.Follow(relay.Backend, m.Bytes)
	}
	return relay.Verdict{Last: !more}, nil
}

// tooLong returns why a hello cannot be looked at.
func tooLong(final bool, length int) error {
	if final {
		return fmt.Errorf("%w: hello of %d bytes", errFrame, length)
	}
	return nil
}

// strayed swallows a reply to a command that wanted none, unless it may be one
// to a request of an unknown opcode.
func (ses *session) strayed() relay.Verdict {
	if ses.unsure.Load() > 0 {
		ses.unsure.Add(-1)
		return relay.Verdict{}
	}
	ses.s.counters.swallowed.Add(1)
	return relay.Verdict{Action: relay.Swallow}
}

// Follow implements [relay.Follower]: the id of a cursor stands behind its
// batch.
func (ses *session) Follow(from relay.Side, part []byte) {
	if from != relay.Backend || !ses.judge.find.active {
		return
	}
	if cursor, found := ses.judge.find.feed(part); found {
		ses.noteCursor(cursor)
	}
}

// parseReply finds the document in a reply, of which the end may be missing.
func parseReply(h header, b []byte, open *opener) (m message, ok bool) {
	op := h.op
	p := b[headerLen:]
	if op == opCompressed {
		o := open.prefix(p, true)
		if !o.ok {
			return m, false
		}
		op, p = o.op, o.b
	}
	return parseMessage(op, p)
}

// judged ends the permit by what the reply says, at its first byte, and keeps
// the ledger.
func (ses *session) judged(r *relay.Session, m *message, length int) {
	a := &ses.asked
	if a.kind != kindCommand {
		ses.loginEnded(m.body)
		return
	}
	re := readReply(m.body)
	if !ses.loggedIn {
		ses.s.login.saw(&re, a.data)
	}
	ses.charge(r, length)
	if re.hasCursor {
		ses.noteCursor(re.cursor)
	}
	if a.inTxn && (a.ends || re.aborted) {
		ses.s.ledger.ended(a.txn)
	}
	if re.overloaded && !a.sampled {
		ses.s.counters.overloaded.Add(1)
	}
	outcome := limiter.Ignored
	switch {
	case re.overloaded:
		outcome = limiter.Dropped
	case a.fair && !re.failed:
		outcome = limiter.Success
	}
	if a.sent > 0 && !a.sampled && outcome == limiter.Success {
		ses.s.observe(time.Duration(r.Now() - a.sent))
	}
	a.sampled = true
	r.End(outcome)
}

// charge reconciles the cost with the size of what was asked and answered.
func (ses *session) charge(r *relay.Session, length int) {
	per, a := ses.s.o.ReplyBytesPerToken, &ses.asked
	r.Carried(a.size + length)
	if per <= 0 || a.free {
		return
	}
	worth := float64(a.size+length) / float64(per)
	if worth > a.cost {
		r.Charge(worth - a.cost)
		a.cost = worth // of a stream, the next reply is charged on top
	}
	a.size += length
}

// noteCursor keeps the ledger of cursors.
func (ses *session) noteCursor(cursor int64) {
	if cursor != 0 {
		ses.s.ledger.opened(cursor, ses.s.gate.Now(), &ses.open, ses.asked.awaits)
	} else if ses.asked.cursor != 0 {
		ses.s.ledger.closed(ses.asked.cursor)
	}
}

// substitute passes on a reply with another document than the backend's.
func (ses *session) substitute(r *relay.Session, h header, b []byte, m *message, parsed bool) (relay.Verdict, error) {
	if !parsed {
		return relay.Verdict{}, fmt.Errorf("%w: reply to hello, opcode %d", errFrame, h.op)
	}
	doc := ses.asked.inject
	if doc == nil {
		var err error
		doc, err = ses.s.hellos.rewrite(nil, m.body[:documentLen(m.body)], r.Backend())
		if err != nil {
			ses.s.warn(err)
			doc = appendError(nil, codeInvalidReplicaSetConfig, "InvalidReplicaSetConfig", "admitd: "+err.Error())
			m.flags &^= flagMoreToCome
			ses.asked.streams = false
		}
	}
	return relay.Verdict{Instead: rebuild(h, b, m, doc), Last: !ses.asked.streams}, nil
}

// rebuild returns the reply's frame with another document. A compressed reply
// becomes a plain one.
func rebuild(h header, b []byte, m *message, doc []byte) []byte {
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

// reply is what a backend's reply says that the gate needs to know.
type reply struct {
	failed     bool  // ok: 0, or error labels
	aborted    bool  // a transaction that it belongs to is over: any error ends it
	overloaded bool  // overload or a timeout: counts as a drop
	hasCursor  bool  // or the backend knows it no more
	cursor     int64 // 0 = exhausted

	unauthorized bool // somebody else, or anybody, must log in first
}

// readReply reads a reply's document, of which the end may be missing, in one
// pass.
func readReply(body []byte) (r reply) {
	var e element
	s := scan(body)
	for s.next(&e) {
		switch string(e.key) {
		case "ok":
			r.failed = r.failed || !e.truthy()
		case "writeErrors":
			r.aborted = true
		case "errorLabels":
			r.failed = true
			r.overloaded = r.overloaded || hasString(e.doc(), labels.SystemOverloaded)
		case "code":
			code, _ := e.number()
			r.overloaded = r.overloaded || tooSlow(code)
			r.hasCursor = r.hasCursor || code == codeCursorNotFound
			r.unauthorized = code == codeUnauthorized
		case "cursor":
			if id, ok := lookupIn(e, "id"); ok {
				r.hasCursor = true
				r.cursor, _ = id.number()
			}
		}
	}
	r.aborted = r.aborted || r.failed
	return r
}

// codeCursorNotFound is the error of a backend that does not know the cursor.
const codeCursorNotFound = 43

// tooSlow reports whether an error code is one by which a server says that it
// ran out of time.
func tooSlow(code int64) bool {
	switch code {
	case 50, // MaxTimeMSExpired
		89,  // NetworkTimeout
		202, // NetworkInterfaceExceededTimeLimit
		262: // ExceededTimeLimit
		return true
	}
	return false
}

// hasString reports whether the array holds the string.
func hasString(s scanner, want string) bool {
	var e element
	for s.next(&e) {
		if string(e.str()) == want {
			return true
		}
	}
	return false
}
