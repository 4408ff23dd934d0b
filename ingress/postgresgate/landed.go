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
		return s.readyForQuery(rs, m), nil
	case msgError:
		s.errored(m.Bytes)
	case msgCopyIn, msgCopyBoth:
		s.copies.Store(true)
		s.unfair()
	case msgCopyOut:
		s.unfair()
	case msgParameterStatus, msgKeyData, msgAuthentication:
		s.login(m)
	}
	return relay.Verdict{}, nil
}

// readyForQuery ends a unit, and the permit unless the session keeps it inside
// a transaction.
func (s *session) readyForQuery(rs *relay.Session, m relay.Message) relay.Verdict {
	v := relay.Verdict{Last: true}
	s.phase.CompareAndSwap(phaseLogin, phaseReady)
	s.copies.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	back := &s.back
	if len(m.Bytes) > headerLen {
		back.status = m.Bytes[headerLen]
	}
	outcome := back.outcome
	if outcome == limiter.Success && !back.sample {
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
	back.failed = false
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
	s.back.sample = false
}
