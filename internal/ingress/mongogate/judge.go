package mongogate

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/mongowire"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// judge is what the backend's side needs from reply to reply.
type judge struct {
	opener mongowire.Opener
	find   mongowire.Finder
}

// Landed implements [relay.Protocol].
func (ses *session) Landed(r *relay.Session, m relay.Message) (relay.Verdict, error) {
	h, err := mongowire.ReadHeader(m.Bytes, ses.o.MaxMessageBytes)
	if err != nil {
		return relay.Verdict{}, fmt.Errorf("backend: %w", err)
	}
	a := &ses.asked
	ses.judge.find.Active = false
	if !r.Owes() || (h.ResponseTo != a.id && (!a.streams || h.ResponseTo != a.stream)) {
		ses.s.counters.swallowed.Add(1) // it answers a command that wanted no reply
		return relay.Verdict{Action: relay.Swallow}, nil
	}
	if a.kind == kindHello && !m.Whole() {
		return relay.Verdict{Action: relay.More}, tooLong(m.Final, h.Length)
	}
	msg, parsed := parseReply(h, m.Bytes, &ses.judge.opener)
	defer ses.judge.opener.Release()
	if !parsed && a.exhaust && !m.Final {
		return relay.Verdict{Action: relay.More}, nil
	}
	more := parsed && msg.Op == mongowire.OpMsg && msg.Flags&mongowire.FlagMoreToCome != 0
	if a.streams = more; more {
		a.stream = h.ID
	}
	ses.judged(r, &msg, h.Length)
	if a.kind == kindHello || a.inject != nil {
		return ses.substitute(r, h, m.Bytes, &msg, parsed)
	}
	if !m.Whole() && h.Op == mongowire.OpMsg && a.kind == kindCommand {
		ses.judge.find.Start()
		ses.Follow(relay.Backend, m.Bytes)
	}
	return relay.Verdict{Last: !more}, nil
}

// tooLong returns why a hello cannot be looked at.
func tooLong(final bool, length int) error {
	if final {
		return fmt.Errorf("%w: hello of %d bytes", mongowire.ErrFrame, length)
	}
	return nil
}

// Follow implements [relay.Follower]: the id of a cursor stands behind its
// batch.
func (ses *session) Follow(from relay.Side, part []byte) {
	if from != relay.Backend || !ses.judge.find.Active {
		return
	}
	if cursor, found := ses.judge.find.Feed(part); found {
		ses.noteCursor(cursor)
	}
}

// parseReply finds the document in a reply, of which the end may be missing.
func parseReply(h mongowire.Header, b []byte, open *mongowire.Opener) (m mongowire.Message, ok bool) {
	op := h.Op
	p := b[mongowire.HeaderLen:]
	if op == mongowire.OpCompressed {
		o := open.Open(p, true)
		if !o.OK {
			return m, false
		}
		op, p = o.Op, o.Bytes
	}
	return mongowire.ParseMessage(op, p)
}

// judged ends the permit by what the reply says, at its first byte, and keeps
// the ledger.
func (ses *session) judged(r *relay.Session, m *mongowire.Message, length int) {
	a := &ses.asked
	if a.kind != kindCommand {
		ses.who.loginEnded(a, m.Body)
		return
	}
	re := readReply(m.Body)
	r.Responded(re.failed || re.aborted)
	if !ses.who.loggedIn {
		ses.s.login.saw(&re, a.data, ses.s.current.Load())
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
	per, a := ses.s.current.Load().ReplyBytesPerToken, &ses.asked
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
func (ses *session) substitute(r *relay.Session, h mongowire.Header, b []byte, m *mongowire.Message, parsed bool) (relay.Verdict, error) {
	if !parsed {
		return relay.Verdict{}, fmt.Errorf("%w: reply to hello, opcode %d", mongowire.ErrFrame, h.Op)
	}
	doc := ses.asked.inject
	if doc == nil {
		var err error
		doc, err = ses.o.hellos.rewrite(nil, m.Body[:documentLen(m.Body)], r.Backend())
		if err != nil {
			if n := ses.s.bypassed.Due(r.Now()); n > 0 {
				ses.o.Log.Warn("replies to hello cannot be passed on", slog.String("ingress", ses.s.gate.Name()), slog.Int64("replies", n), slog.Any("last_error", err))
			}
			doc = appendError(nil, codeInvalidReplicaSetConfig, "InvalidReplicaSetConfig", "admitd: "+err.Error())
			m.Flags &^= mongowire.FlagMoreToCome
			ses.asked.streams = false
		}
	}
	return relay.Verdict{Instead: rebuild(h, b, m, doc), Last: !ses.asked.streams}, nil
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
	var e mongowire.Element
	s := mongowire.Scan(body)
	for s.Next(&e) {
		switch string(e.Key) {
		case "ok":
			r.failed = r.failed || !e.Truthy()
		case "writeErrors":
			r.aborted = true
		case "errorLabels":
			r.failed = true
			r.overloaded = r.overloaded || hasString(e.Document(), labels.SystemOverloaded)
		case "code":
			code, _ := e.Number()
			r.overloaded = r.overloaded || tooSlow(code)
			r.hasCursor = r.hasCursor || code == codeCursorNotFound
			r.unauthorized = code == codeUnauthorized
		case "cursor":
			if id, ok := mongowire.LookupIn(e, "id"); ok {
				r.hasCursor = true
				r.cursor, _ = id.Number()
			}
		}
	}
	r.aborted = r.aborted || r.failed
	return r
}

// codeCursorNotFound is the error of a backend that does not know the cursor.
const codeCursorNotFound = 43

// tooSlow reports whether an error code is one by which a server says that it
// ran out of time or is overloaded.
func tooSlow(code int64) bool {
	switch code {
	case 50, // MaxTimeMSExpired
		89,  // NetworkTimeout
		202, // NetworkInterfaceExceededTimeLimit
		262, // ExceededTimeLimit
		462, // IngressRequestRateLimitExceeded, of a limiter or a gate behind this one
		463, // IngressOperationRateLimitExceeded
		473: // InterruptedDueToOverload
		return true
	}
	return false
}

// hasString reports whether the array holds the string.
func hasString(s mongowire.Scanner, want string) bool {
	var e mongowire.Element
	for s.Next(&e) {
		if string(e.Text()) == want {
			return true
		}
	}
	return false
}
