package postgresgate

import (
	"errors"

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
	case msgTerminate, msgCopyData, msgCopyDone, msgCopyFail:
		return relay.Verdict{}, nil
	case msgFlush:
		if s.unit.refused {
			return relay.Verdict{Action: relay.Swallow}, nil
		}
		return relay.Verdict{}, nil
	case msgSync:
		return s.sync(rs), nil
	}
	if s.unit.synced && rs.Owes() {
		return relay.Verdict{Action: relay.Wait}, nil
	}
	if s.unit.synced {
		s.unit = unit{}
	}
	if s.unit.refused {
		return relay.Verdict{Action: relay.Swallow}, nil
	}
	if kind == msgQuery || kind == msgFunctionCall {
		return s.query(rs, m)
	}
	return s.extended(rs, m)
}

// sync ends a unit of the extended protocol.
func (s *session) sync(rs *relay.Session) relay.Verdict {
	switch {
	case s.unit.refused && rs.Owes(), s.unit.synced && rs.Owes() && !s.copies.Load():
		return relay.Verdict{Action: relay.Wait}
	case s.unit.refused:
		s.unit = unit{}
		return relay.Verdict{Action: relay.Swallow, Answer: appendReady(nil, statusIdle)}
	}
	first := !s.unit.open || s.unit.synced && !rs.Owes()
	s.unit.open, s.unit.synced = true, true
	return relay.Verdict{Expect: first}
}

// query decides about a simple query or a function call, which are units of
// their own.
func (s *session) query(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	st := statement{op: opOther, n: 1}
	if m.Bytes[0] == msgQuery {
		st = parseStatement(text(m.Bytes[headerLen:]))
		s.follow(&st)
	}
	if !s.unit.admitted && st.n > 0 {
		switch answer, err := s.admit(rs, &st); {
		case errors.Is(err, errRefused) && !s.unit.open:
			s.unit = unit{}
			return relay.Verdict{Action: relay.Swallow, Answer: appendReady(answer, statusIdle)}, nil
		case errors.Is(err, errRefused): // a query in the middle of a unit is none that a driver sends
			return relay.Verdict{}, errFrame
		case err != nil:
			return relay.Verdict{}, err
		}
	}
	first := !s.unit.open
	s.unit.open, s.unit.synced = true, true
	return relay.Verdict{Expect: first}, nil
}

// extended decides about a message of the extended protocol. A unit is admitted
// when it binds: to prepare a statement costs little.
func (s *session) extended(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	var st statement
	switch body := m.Bytes[headerLen:]; m.Bytes[0] {
	case msgParse:
		s.prepare(body)
	case msgClose:
		s.closed(body)
	case msgBind:
		st = s.bound(body)
	case msgExecute:
		st = statement{op: opOther, n: 1}
	}
	if st.n > 0 && !s.unit.admitted {
		switch answer, err := s.admit(rs, &st); {
		case errors.Is(err, errRefused):
			return s.refuse(answer), nil
		case err != nil:
			return relay.Verdict{}, err
		}
	} else if m.Bytes[0] == msgBind && s.srv.o.PerStatement && s.status() == statusIdle {
		rs.Charge(s.srv.cost(&st))
	}
	first := !s.unit.open
	s.unit.open = true
	return relay.Verdict{Expect: first}, nil
}

// refuse answers a unit that was refused when it bound. What was passed of it
// before has to be answered first: a Sync of the gate brings that, and the
// refusal takes the place of its ReadyForQuery.
func (s *session) refuse(answer []byte) relay.Verdict {
	passed := s.unit.open
	s.unit = unit{refused: true}
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
func (s *session) admit(rs *relay.Session, st *statement) (answer []byte, err error) {
	s.mu.Lock()
	back := &s.back
	status, kept := back.status, back.kept
	back.failed, back.outcome = false, limiter.Success
	back.sample = st.op != opBegin && st.op != opFree
	req := s.request(st)
	s.mu.Unlock()
	s.unit.admitted = true
	if kept {
		return nil, nil
	}
	inside := status != statusIdle
	if inside || st.op == opFree {
		req.Continues, req.Exempt = true, true
	}
	err = rs.Admit(req)
	if rej, ok := errors.AsType[*limiter.Rejection](err); ok {
		s.srv.counters.refused.Add(1)
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
	st := parseStatement(text(rest))
	st.tags, st.set = append([]byte(nil), st.tags[:min(len(st.tags), maxFact)]...), append([]byte(nil), st.set[:min(len(st.set), maxFact)]...)
	if _, known := s.prepared[string(name)]; !known && len(s.prepared) >= maxPrepared {
		return
	}
	if s.prepared == nil {
		s.prepared = map[string]statement{}
	}
	s.prepared[string(name)] = st
}

// bound returns what the statement does that a Bind names.
func (s *session) bound(body []byte) statement {
	_, rest, _ := cutString(body) // the portal
	name, _, _ := cutString(rest)
	st, ok := s.prepared[string(name)]
	if !ok {
		return statement{op: opOther, n: 1}
	}
	st.n = 1
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

// follow takes what a statement says about the time that statements may take.
func (s *session) follow(st *statement) {
	if st.set == nil {
		return
	}
	name, value, ok := setting(st.set)
	if ok && equalFold(name, "statement_timeout") {
		s.who.timeout = parseTimeout(string(value[:min(len(value), maxFact)]))
	}
}

// text returns the string at the head of b, or all of b where its end is not
// shown.
func text(b []byte) []byte {
	if s, _, ok := cutString(b); ok {
		return s
	}
	return b
}
