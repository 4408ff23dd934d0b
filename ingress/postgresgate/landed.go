package postgresgate

import (
	"sync"

	"github.com/admitd/admitd/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Landed implements [relay.Protocol].
func (s *session) Landed(rs *relay.Session, m relay.Message) (relay.Verdict, error) {
	switch s.login.phase.Load() {
	case phaseOpaque, phaseCancel:
		return relay.Verdict{}, nil
	case phaseAsked:
		return s.login.answered(m.Bytes[0]), nil
	}
	switch m.Bytes[0] {
	case msgReady:
		if s.login.phase.Load() == phaseLogin {
			if err := s.login.ended(rs, s.back.now().superuser); err != nil {
				return relay.Verdict{}, err
			}
		}
		return s.readyForQuery(rs, m), nil
	case msgError:
		s.back.errored(m.Bytes)
		s.unsent.copy.CompareAndSwap(copyTakes, copyOver)
		rs.Wake() // whoever waits for rows to be taken, or for answers
		if s.login.phase.Load() == phaseLogin {
			return relay.Verdict{Last: true}, nil // the login is refused, and the server closes the connection
		}
	case msgParsed, msgClosed, msgRow, msgNoRow:
		s.answers.Add(1)
		rs.Wake() // a query may wait behind a Flush
	case msgCopyIn, msgCopyBoth:
		s.unsent.copy.Store(copyTakes)
		s.back.spoil()
		if s.gone.Load() {
			if b := s.unsent.endRows(); b != nil {
				_ = rs.Send(b) // a server that has gone ends the session anyway
			}
		}
		rs.Wake() // a Sync may wait that the server now waits for
	case msgCopyOut:
		s.back.spoil()
	case msgAuthentication:
		return relay.Verdict{Instead: s.login.authentication(m)}, nil
	case msgParameterStatus:
		name, rest, _ := cutString(m.Bytes[min(headerLen, len(m.Bytes)):])
		value, _, _ := cutString(rest)
		s.back.setting(name, value)
	case msgKeyData:
		if m.Whole() {
			s.srv.keys.add(m.Bytes[min(headerLen, len(m.Bytes)):], rs.Backend(), s)
		}
	}
	return relay.Verdict{}, nil
}

// readyForQuery ends a unit, and the permit unless the session keeps it inside
// a transaction.
func (s *session) readyForQuery(rs *relay.Session, m relay.Message) relay.Verdict {
	v := relay.Verdict{Last: true}
	s.unsent.answered()
	b := &s.back
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status != 0 && (b.failed || b.refusal == nil) { // neither the login nor what was refused here
		rs.Responded(b.failed)
	}
	if len(m.Bytes) > headerLen {
		s.srv.counters.opens(b.status, m.Bytes[headerLen])
		b.status = m.Bytes[headerLen]
	}
	outcome := b.outcome
	if outcome == limiter.Success && (!b.works || b.unfair) {
		outcome = limiter.Ignored
	}
	b.kept = b.status != statusIdle && s.o.KeepInTransaction
	if !b.kept {
		rs.End(outcome)
	}
	if b.refusal != nil {
		v.Instead = b.refusal
		if b.failed { // the client is told already, and waits for its Sync
			v = relay.Verdict{Action: relay.Swallow, Last: true}
		}
		b.refusal = nil
	}
	// While a permit is kept its age is the client's thinking too.
	b.failed, b.failedLast, b.works, b.unfair = false, b.failed, false, b.kept
	b.outcome = limiter.Success
	return v
}

// backend is what the backend's side tells the client's.
type backend struct {
	mu sync.Mutex // guards the fields below; never held across a wait
	reported
	failed     bool            // an error was passed in this unit
	failedLast bool            // and in the one before
	outcome    limiter.Outcome // of the unit so far
	works      bool            // the unit does something of which the latency can teach
	unfair     bool            // its latency is the client's as much as the server's
	refusal    []byte          // stands in for the next ReadyForQuery; nil = none
}

// reported is what the server said last of a session.
type reported struct {
	status      byte // transaction status of the last ReadyForQuery, 0 before the first
	application string
	superuser   bool
	kept        bool // the permit is kept although the session is idle in a transaction
}

// now returns what the server said last.
func (b *backend) now() reported {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reported
}

// begin notes that the unit is asked for something, of which the latency can teach
// when it works, and returns what the server said last.
func (b *backend) begin(works bool) reported {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.works = b.works || works
	return b.reported
}

// failing reports whether the server reported an error in this unit, and whether it
// did in the last one.
func (b *backend) failing() (now, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed, b.failedLast
}

// errored notes an error of the backend.
func (b *backend) errored(m []byte) {
	outcome := judge(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = true
	if outcome != limiter.Success && b.outcome != limiter.Dropped {
		b.outcome = outcome
	}
}

// spoil notes that the unit's latency is the client's as much as the server's.
func (b *backend) spoil() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unfair = true
}

// refuse has a refusal take the place of the next ReadyForQuery.
func (b *backend) refuse(answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = answer
}

// setting takes a setting that the server reports, or that the client began with.
func (b *backend) setting(name, value []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch string(name) {
	case "application_name":
		b.application = string(value[:min(len(value), maxFact)])
	case "is_superuser":
		b.superuser = string(value) == "on"
	}
}
