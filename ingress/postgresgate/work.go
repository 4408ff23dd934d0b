package postgresgate

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/admitd/admitd/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// maxPrepared bounds the prepared statements of one connection that the gate
// knows; of further ones it does not know what they do.
const maxPrepared = 1000

// errRefused says that a unit was refused and how the client is told; it never
// leaves the package.
var errRefused = errors.New("postgresgate: refused")

// work decides about a message of a client that is logged in.
func (s *session) work(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	kind := m.Bytes[0]
	switch kind {
	case msgTerminate:
		return relay.Verdict{}, nil
	case msgCopyData, msgCopyDone, msgCopyFail, msgFlush:
		return s.onTheWay(kind), nil
	case msgSync:
		return s.sync(rs), nil
	}
	if s.unit.synced && rs.Owes() {
		if s.copy.Load() == copyTakes && !s.unit.copied {
			return relay.Verdict{}, fmt.Errorf("%w: message %q in the middle of copied rows", errFrame, kind)
		}
		return relay.Verdict{Action: relay.Wait}, nil
	}
	if s.unit.synced {
		s.begin()
	}
	if s.unit.refused {
		return relay.Verdict{Action: relay.Swallow}, nil
	}
	if kind == msgQuery || kind == msgFunctionCall {
		return s.query(rs, m)
	}
	return s.extended(rs, m)
}

// onTheWay decides about what neither begins nor ends a unit.
func (s *session) onTheWay(kind byte) relay.Verdict {
	switch {
	case s.unit.refused:
		return relay.Verdict{Action: relay.Swallow}
	case kind == msgFlush:
		s.unit.flushed = true
		if s.unit.admitted {
			s.unfair() // the client will look at what it got before it goes on
		}
	case kind == msgCopyDone || kind == msgCopyFail:
		s.unit.copied = s.unit.open
		s.fed.Store(s.unit.open)
	}
	return relay.Verdict{}
}

// begin begins the next unit: the one before is answered.
func (s *session) begin() {
	if s.unit.parsed && s.erredLast() {
		// The server may not have come to a Parse. What is not known is admitted
		// like anything else.
		maps.DeleteFunc(s.prepared, func(_ string, t task) bool { return t.Op == sqltext.OpFree })
	}
	s.unit = unit{}
	s.whole()
}

// whole notes that no unit is half sent.
func (s *session) whole() {
	if s.half.Load() {
		s.half.Store(false)
	}
}

// sync ends a unit of the extended protocol, or the rows of one that copies: the
// server ignores the Sync that it finds among them.
func (s *session) sync(rs *relay.Session) relay.Verdict {
	u, owes, copying := &s.unit, rs.Owes(), s.copy.Load()
	switch {
	case u.refused && owes:
		return relay.Verdict{Action: relay.Wait}
	case u.refused:
		s.begin()
		return relay.Verdict{Action: relay.Swallow, Answer: appendReady(nil, s.status())}
	case u.synced && owes && copying == copyTakes && !u.copied:
		return relay.Verdict{Action: relay.Swallow}
	case u.synced && owes && (u.simple || u.ended || copying == copyNone):
		return relay.Verdict{Action: relay.Wait}
	case u.synced && owes:
		u.ended = true
		return relay.Verdict{}
	case u.synced:
		s.begin()
	}
	first := !u.open
	u.open, u.synced, u.ended = true, true, u.copied
	s.whole()
	return relay.Verdict{Expect: first}
}

// query decides about a simple query or a function call, which are units of
// their own.
func (s *session) query(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if v, decided, err := s.behind(); decided {
		return v, err
	}
	st := unknown()
	if m.Bytes[0] == msgQuery {
		st = s.parse(m.Bytes[headerLen:])
		s.follow(&st)
	}
	if st.N > 0 {
		switch answer, err := s.admit(rs, &st); {
		case errors.Is(err, errRefused):
			v := s.refuse(appendReady(answer, statusIdle))
			s.unit = unit{open: s.unit.open, synced: s.unit.open}
			return v, nil
		case err != nil:
			return relay.Verdict{}, err
		}
	}
	first := !s.unit.open
	s.unit.open, s.unit.synced, s.unit.simple = true, true, true
	s.whole()
	return relay.Verdict{Expect: first}, nil
}

// behind decides about a query behind messages without a Sync, unless it may pass
// like any other: it has to be known whose an error is. asyncpg prepares with a
// Flush, looks at what it got, and goes on with a query.
func (s *session) behind() (v relay.Verdict, decided bool, err error) {
	u := &s.unit
	switch {
	case !u.open || u.closes:
		return v, false, nil
	case u.admitted || !u.flushed:
		return v, true, fmt.Errorf("%w: a query behind messages without a Sync", errFrame)
	case s.failing(): // the server would skip it too, up to the Sync
		return relay.Verdict{Action: relay.Swallow}, true, nil
	case s.answers.Load() < u.asked:
		return relay.Verdict{Action: relay.Wait}, true, nil
	}
	return v, false, nil
}

// extended decides about a message of the extended protocol. A unit is admitted
// when it binds: to prepare a statement costs little.
func (s *session) extended(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	kind, body := m.Bytes[0], m.Bytes[headerLen:]
	var st task
	switch kind {
	case msgParse:
		s.prepare(body)
		s.unit.parsed = true
	case msgClose:
		s.closed(body)
	case msgBind:
		st = s.bound(body)
	case msgExecute:
		st = unknown()
	}
	switch needs := s.needs(kind, &st); {
	case needs:
		switch answer, err := s.admit(rs, &st); {
		case errors.Is(err, errRefused):
			return s.refuse(answer), nil
		case err != nil:
			return relay.Verdict{}, err
		}
	case kind == msgBind && s.srv.o.PerStatement && s.status() == statusIdle:
		rs.Charge(s.srv.cost(&st))
	}
	first := !s.unit.open
	if first {
		s.half.Store(true)
	}
	s.unit.closes = kind == msgClose && (first || s.unit.closes)
	s.unit.open, s.unit.flushed = true, false
	s.unit.asked++
	return relay.Verdict{Expect: first}, nil
}

// needs reports whether a message of the extended protocol needs a permit that
// its unit does not have.
func (s *session) needs(kind byte, st *task) bool {
	switch {
	case st.N == 0:
		return false
	case kind == msgExecute: // its Bind has seen to that
		return !s.unit.admitted
	default:
		return !s.unit.admitted || s.unit.free && st.Op != sqltext.OpFree
	}
}

// refuse answers a unit that was refused. What was passed of it before has to be
// answered first: a Sync of the gate brings that, and the refusal takes the place
// of its ReadyForQuery.
func (s *session) refuse(answer []byte) relay.Verdict {
	passed := s.unit.open
	s.unit = unit{refused: true, open: passed, parsed: s.unit.parsed}
	if !passed {
		return relay.Verdict{Action: relay.Swallow, Answer: answer}
	}
	s.mu.Lock()
	s.back.refusal = answer
	s.mu.Unlock()
	return relay.Verdict{Instead: appendMessage(nil, msgSync)}
}

// admit asks for a permit for a unit that begins with st. The error is
// errRefused, with what the client is told, or the connection's end.
func (s *session) admit(rs *relay.Session, st *task) (answer []byte, err error) {
	s.mu.Lock()
	back := &s.back
	inside, kept := back.status != statusIdle, back.kept
	back.works = back.works || st.Op != sqltext.OpBegin && st.Op != sqltext.OpFree
	req := s.request(st)
	s.mu.Unlock()
	if s.unit.free {
		rs.End(limiter.Ignored)
	}
	s.unit.admitted, s.unit.free = true, st.Op == sqltext.OpFree && !inside
	if kept {
		return nil, nil
	}
	req.Exempt = req.Exempt || inside || st.Op == sqltext.OpFree
	req.Continues = inside
	if !inside {
		s.srv.counters.units[st.Op].Add(1)
	}
	err = rs.Admit(req)
	s.saw(st, err)
	if rej, ok := errors.AsType[*limiter.Rejection](err); ok {
		s.srv.counters.refused[st.Op].Add(1)
		d := rej.Document(req, !s.srv.o.NoHints)
		return appendRefusal(nil, &d, s.srv.o.SQLStates), errRefused
	}
	if errors.Is(err, relay.ErrInterrupted) {
		return appendCanceled(nil), errRefused
	}
	return nil, err
}

// prepare notes what a statement does that a Parse prepares.
func (s *session) prepare(body []byte) {
	name, rest, ok := cutString(body)
	if !ok || len(name) > maxFact {
		return
	}
	st := s.parse(rest)
	st.Statement = st.Clone()
	old, known := s.prepared[string(name)]
	switch {
	case !known && len(s.prepared) >= maxPrepared:
		return
	case known && len(name) > 0 && old.Op.Outranks(st.Op): // the server will not replace it
		return
	}
	if s.prepared == nil {
		s.prepared = map[string]task{}
	}
	s.prepared[string(name)] = st
}

// bound returns what the statement does that a Bind names.
func (s *session) bound(body []byte) task {
	_, rest, _ := cutString(body) // the portal
	name, _, shown := cutString(rest)
	st, ok := s.prepared[string(name)]
	if !ok || !shown {
		return unknown()
	}
	st.N = 1
	s.follow(&st)
	return st
}

// closed forgets a statement that a Close names.
func (s *session) closed(body []byte) {
	if len(body) > 0 && body[0] == 'S' {
		name, _, _ := cutString(body[1:])
		delete(s.prepared, string(name))
	}
}

// follow takes what a statement changes of the session: the time that statements
// may take, and what is prepared.
func (s *session) follow(st *task) {
	if st.Forgets {
		clear(s.prepared)
	}
	if st.Resets {
		s.who.timeout = s.who.timeoutAtStart
	}
	if value, ok := st.Sets("statement_timeout"); ok {
		s.who.timeout = parseTimeout(string(value))
		if strings.EqualFold(string(value), "default") {
			s.who.timeout = s.who.timeoutAtStart
		}
	}
}
