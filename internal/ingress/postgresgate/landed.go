package postgresgate

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/ingress/relay"
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
		fail := s.back.errored(m.Bytes)
		s.unsent.copy.CompareAndSwap(copyTakes, copyOver)
		rs.Wake() // whoever waits for rows to be taken, or for answers
		if s.login.phase.Load() == phaseLogin {
			return relay.Verdict{Last: true}, nil // the login is refused, and the server closes the connection
		}
		return relay.Verdict{Instead: fail}, nil
	case msgDataRow:
		s.back.row(m.Bytes)
	case msgParsed, msgClosed, msgRow, msgNoRow:
		s.answers.Add(1)
		rs.Wake() // a query may wait behind a Flush
	case msgCopyIn, msgCopyBoth:
		s.unsent.rows.Add(1)
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
	b.chained = b.status != statusIdle && (b.chained || b.ends && !b.failed)
	b.yielded = b.status != statusIdle && (b.yielded || b.kept && rs.Yielded())
	b.kept = b.status != statusIdle && s.o.IdleInTransaction != IdleRelease && !b.chained && !b.yielded
	b.settleLocks()
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
	b.failed, b.failedLast, b.ends, b.fail = false, b.failed, false, nil
	if !b.kept { // else the latency is that of the whole transaction
		b.works, b.unfair, b.outcome = false, false, limiter.Success
	}
	return v
}

// backend is what the backend's side tells the client's.
type backend struct {
	mu sync.Mutex // guards the fields below; never held across a wait
	reported
	failed     bool            // an error was passed in this unit
	failedLast bool            // and in the one before
	outcome    limiter.Outcome // of what the permit stands for, so far, as are the next two
	works      bool            // it does something of which the latency can teach
	unfair     bool            // its latency is the client's as much as the server's
	refusal    []byte          // stands in for the next ReadyForQuery; nil = none
	fail       []byte          // stands in for the error of refusedText; nil = none
	ends       bool            // the unit ends a transaction
	lock       sqltext.Lock    // what the unit does with advisory locks
	row1       atomic.Bool     // whether the next row says that a lock was taken is looked at
}

// reported is what the server said last of a session.
type reported struct {
	status      byte // transaction status of the last ReadyForQuery, 0 before the first
	application string
	superuser   bool
	kept        bool // the permit is kept although the session is idle in a transaction
	// chained: the transaction began in the unit that ended the one before, so that
	// nobody has asked for it.
	chained bool
	yielded bool // the permit was given back in this transaction, while the session was idle
	locks   int  // advisory locks of the session that it is known to hold
}

// inside reports whether the session is inside a transaction that was admitted, or
// holds locks as in one.
func (r *reported) inside() bool {
	return r.status != statusIdle && !r.chained || r.locks > 0
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

// soFar is the outcome of what the permit stands for, were it to end now.
func (b *backend) soFar() limiter.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcome == limiter.Success && (!b.works || b.unfair) {
		return limiter.Ignored
	}
	return b.outcome
}

// failing reports whether the server reported an error in this unit, and whether it
// did in the last one.
func (b *backend) failing() (now, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed, b.failedLast
}

// tells notes what a statement of the unit that is let in does with transactions and
// advisory locks.
func (b *backend) tells(st *task) {
	if !st.Ends && st.Lock == sqltext.LockNone {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = b.ends || st.Ends
	if st.Lock != sqltext.LockNone {
		b.lock = st.Lock
		b.row1.Store(st.Lock == sqltext.LockTry)
	}
}

// row takes the answer to an attempt to take an advisory lock: one that failed took
// none.
func (b *backend) row(m []byte) {
	if !b.row1.Load() {
		return
	}
	b.row1.Store(false)
	const value = headerLen + 2 + 4 // behind the number of columns, and the length of the first
	if len(m) > value && (m[value] == 't' || m[value] == 1) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lock = sqltext.LockNone
}

// settleLocks counts what the unit did with advisory locks; with mu.
func (b *backend) settleLocks() {
	switch b.lock {
	case sqltext.LockTake, sqltext.LockTry:
		if !b.failed && !b.row1.Load() { // else no row said that it was taken
			b.locks++
		}
	case sqltext.LockFree:
		b.locks = max(0, b.locks-1)
	case sqltext.LockFreeAll:
		b.locks = 0
	case sqltext.LockNone:
		return
	}
	b.lock = sqltext.LockNone
	b.row1.Store(false)
}

// admitted notes that the transaction that is open was asked for.
func (b *backend) admitted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chained = false
}

// failWith has an error take the place of that of refusedText. Of a unit whose Sync is to come, the ReadyForQuery is kept back.
func (b *backend) failWith(answer []byte, synced bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = answer
	if !synced {
		b.refusal = answer
	}
}

// errored notes an error of the backend, and returns what takes its place; nil =
// nothing.
func (b *backend) errored(m []byte) (instead []byte) {
	outcome := judge(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = true
	if b.fail != nil && bytes.Contains(field(m, 'M'), []byte(refusedText)) {
		instead, b.fail = b.fail, nil
		return instead
	}
	if outcome != limiter.Success && b.outcome != limiter.Dropped {
		b.outcome = outcome
	}
	return nil
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
