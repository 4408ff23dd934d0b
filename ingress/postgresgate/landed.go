package postgresgate

import (
	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Landed implements [relay.Protocol].
func (s *session) Landed(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	switch s.phase.Load() {
	case phaseOpaque, phaseCancel:
		return relay.Verdict{}, nil
	case phaseAsked:
		return s.answered(m.Bytes[0]), nil
	}
	switch m.Bytes[0] {
	case msgReady:
		if s.phase.Load() == phaseLogin {
			if err := s.loggedIn(rs); err != nil {
				return relay.Verdict{}, err
			}
		}
		return s.readyForQuery(rs, m), nil
	case msgError:
		s.errored(m.Bytes)
		s.copy.CompareAndSwap(copyTakes, copyOver)
		rs.Wake() // whoever waits for rows to be taken, or for answers
		if s.phase.Load() == phaseLogin {
			return relay.Verdict{Last: true}, nil // the login is refused, and the server closes the connection
		}
	case msgParsed, msgClosed, msgRow, msgNoRow:
		s.answers.Add(1)
		rs.Wake() // a query may wait behind a Flush
	case msgCopyIn, msgCopyBoth:
		s.copy.Store(copyTakes)
		s.unfair()
		if s.gone.Load() {
			if b := s.endRows(); b != nil {
				_ = rs.Send(b) // a server that has gone ends the session anyway
			}
		}
		rs.Wake() // a Sync may wait that the server now waits for
	case msgCopyOut:
		s.unfair()
	case msgAuthentication:
		return relay.Verdict{Instead: s.authentication(m)}, nil
	case msgParameterStatus, msgKeyData:
		s.login(m)
	}
	return relay.Verdict{}, nil
}

// readyForQuery ends a unit, and the permit unless the session keeps it inside
// a transaction.
func (s *session) readyForQuery(rs *relay.Session, m relay.Message) relay.Verdict {
	v := relay.Verdict{Last: true}
	s.copy.Store(copyNone)
	s.fed.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	back := &s.back
	if len(m.Bytes) > headerLen {
		s.srv.counters.opens(back.status, m.Bytes[headerLen])
		back.status = m.Bytes[headerLen]
	}
	outcome := back.outcome
	if outcome == limiter.Success && (!back.works || back.unfair) {
		outcome = limiter.Ignored
	}
	back.kept = back.status != statusIdle && s.srv.o.KeepInTransaction
	if !back.kept {
		rs.End(outcome)
	}
	if back.refusal != nil {
		v.Instead = back.refusal
		if back.failed { // the client is told already, and waits for its Sync
			v = relay.Verdict{Action: relay.Swallow, Last: true}
		}
		back.refusal = nil
	}
	// While a permit is kept its age is the client's thinking too.
	back.failed, back.failedLast, back.works, back.unfair = false, back.failed, false, back.kept
	back.outcome = limiter.Success
	return v
}

// errored notes an error of the backend.
func (s *session) errored(m []byte) {
	outcome := judge(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back.failed = true
	if outcome != limiter.Success && s.back.outcome != limiter.Dropped {
		s.back.outcome = outcome
	}
}

// unfair notes that the unit's latency is the client's as much as the server's.
func (s *session) unfair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back.unfair = true
}
