package postgresgate

import (
	"errors"
	"fmt"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

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
		if s.unsent.copy.Load() == copyTakes && !s.unit.copied {
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
			s.back.spoil() // the client will look at what it got before it goes on
		}
	case kind == msgCopyDone || kind == msgCopyFail:
		s.unit.copied = s.unit.open
		if s.unit.open {
			s.unsent.rows.Add(-1)
		}
	}
	return relay.Verdict{}
}

// begin begins the next unit: the one before is answered.
func (s *session) begin() {
	if s.unit.parsed {
		if _, failed := s.back.failing(); failed {
			s.prepared.doubt()
		}
	}
	s.unit = unit{}
	s.unsent.whole()
}

// sync ends a unit of the extended protocol, or the rows of one that copies: the
// server ignores the Sync that it finds among them.
func (s *session) sync(rs *relay.Session) relay.Verdict {
	u, owes, copying := &s.unit, rs.Owes(), s.unsent.copy.Load()
	switch {
	case u.refused && owes:
		return relay.Verdict{Action: relay.Wait}
	case u.refused:
		s.begin()
		return relay.Verdict{Action: relay.Swallow, Answer: appendReady(nil, s.back.now().status)}
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
	s.unsent.whole()
	return relay.Verdict{Expect: first}
}

// query decides about a simple query or a function call, which are units of
// their own.
func (s *session) query(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	if v, decided, err := s.behind(); decided {
		return v, err
	}
	d := desks.Get().(*scratch)
	defer d.leave()
	d.task = unknown()
	if m.Bytes[0] == msgQuery {
		d.task = s.prepared.parse(m.Bytes[headerLen:])
		s.prepared.follow(&d.task)
		s.login.who.follow(&d.task)
	}
	if d.task.N > 0 {
		d.task.Catalogue = m.Bytes[0] == msgQuery && s.mayAsk() && sqltext.Catalogue(text(m.Bytes[headerLen:]))
		switch answer, err := s.admit(rs, d); {
		case errors.Is(err, errRefused) && s.back.now().chained:
			return s.fail(answer, true), nil
		case errors.Is(err, errRefused):
			v := s.refuse(appendReady(answer, statusIdle))
			s.unit = unit{open: s.unit.open, synced: s.unit.open}
			return v, nil
		case err != nil:
			return relay.Verdict{}, err
		}
	}
	s.back.tells(&d.task)
	first := !s.unit.open
	s.unit.open, s.unit.synced, s.unit.simple = true, true, true
	s.unsent.whole()
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
	}
	switch failed, _ := s.back.failing(); {
	case failed: // the server would skip it too, up to the Sync
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
	d := desks.Get().(*scratch)
	defer d.leave()
	switch kind {
	case msgParse:
		s.prepared.add(body, s.mayAsk())
		s.unit.parsed = true
	case msgClose:
		s.prepared.closed(body)
	case msgBind:
		d.task = s.prepared.bound(body)
		s.login.who.follow(&d.task)
	case msgExecute:
		d.task = unknown()
	}
	switch needs := s.unit.needs(kind, &d.task); {
	case needs:
		switch answer, err := s.admit(rs, d); {
		case errors.Is(err, errRefused) && s.back.now().chained:
			return s.fail(answer, false), nil
		case errors.Is(err, errRefused):
			return s.refuse(answer), nil
		case err != nil:
			return relay.Verdict{}, err
		}
	case kind == msgBind && s.srv.current.Load().PerStatement && s.back.now().status == statusIdle:
		rs.Charge(s.srv.current.Load().cost(&d.task))
	}
	s.back.tells(&d.task)
	first := !s.unit.open
	if first {
		s.unsent.half.Store(true)
	}
	s.unit.closes = kind == msgClose && (first || s.unit.closes)
	s.unit.open, s.unit.flushed = true, false
	s.unit.asked++
	return relay.Verdict{Expect: first}, nil
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
	s.back.refuse(answer)
	return relay.Verdict{Instead: appendMessage(nil, msgSync)}
}

// fail answers a unit that was refused at the beginning of a transaction which the
// server has begun already: it is made to fail there, or a COMMIT would be answered
// as if the unit had been done.
func (s *session) fail(answer []byte, synced bool) relay.Verdict {
	first := !s.unit.open
	if synced {
		s.unit = unit{open: true, synced: true, simple: true}
	} else {
		s.unit = unit{refused: true, open: true, parsed: s.unit.parsed}
	}
	s.back.failWith(answer, synced)
	return relay.Verdict{Instead: appendMessage(appendMessage(nil, msgParse, []byte(refusedText+"\x00"+refusedText+"\x00\x00\x00")...), msgSync), Expect: first}
}

// refusedText is no SQL: the server's error, which names it, fails a transaction.
const refusedText = "admitd_refused"

// maxCatalogue is how many statements of the catalogues pass before any other of a
// session. Drivers ask a few when they connect, and some give the connection up, or
// the process, when one is refused.
const maxCatalogue = 10

// mayAsk reports whether a statement of the catalogues passes.
func (s *session) mayAsk() bool { return s.asked < maxCatalogue }

// text returns what is shown of a text that ends in a zero; nil when its end is not.
func text(b []byte) []byte {
	shown, _, whole := cutString(b)
	if !whole {
		return nil
	}
	return shown
}

// admit asks for a permit for a unit that begins with the task on the scratch. The
// error is errRefused, with what the client is told, or the connection's end.
func (s *session) admit(rs *relay.Session, d *scratch) (answer []byte, err error) {
	st, f := &d.task, &d.facts
	said := s.back.begin(st.Op != sqltext.OpBegin && st.Op != sqltext.OpFree)
	inside := said.inside()
	*f = facts{startup: &s.login.who, remote: s.login.remote, reported: said, task: st}
	o := s.srv.current.Load()
	req := o.request(f, &s.key)
	if s.unit.free {
		rs.End(limiter.Ignored)
	}
	s.unit.admitted, s.unit.free = true, st.Op == sqltext.OpFree && !inside
	if said.kept {
		return nil, nil
	}
	catalogue := st.Catalogue && !inside && s.mayAsk()
	req.Exempt = req.Exempt || inside || st.Op == sqltext.OpFree || catalogue
	req.Continues, req.Ends = inside, st.Op == sqltext.OpFree
	if !inside {
		s.srv.counters.units[st.Op].Add(1)
	}
	err = rs.Admit(req)
	s.srv.saw(f, err)
	switch {
	case err != nil || inside || st.Op == sqltext.OpFree:
	case catalogue:
		s.asked++
	default:
		s.asked = maxCatalogue
		if said.chained {
			s.back.admitted()
		}
	}
	if rej, ok := errors.AsType[*limiter.Rejection](err); ok {
		s.srv.counters.refused[st.Op].Add(1)
		s.srv.suspends.full()
		d := rej.Document(req, !o.NoHints)
		if d.RetryAfterMS > 0 && !d.Reason.ByRate() {
			d.RetryAfterMS = max(d.RetryAfterMS, s.srv.suspends.stuckFor(rej.Partition).Milliseconds())
		}
		return appendRefusal(nil, &d, o.SQLStates), errRefused
	}
	if errors.Is(err, relay.ErrInterrupted) {
		return appendCanceled(nil), errRefused
	}
	return nil, err
}
