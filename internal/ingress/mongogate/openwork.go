package mongogate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/mongowire"
)

// How long the server keeps what nobody uses: entries older than this are
// forgotten.
const (
	cursorLife  = 10 * time.Minute
	txnLife     = time.Minute
	ledgerBound = 64 << 10
	sweepApart  = time.Second // between two searches for them
)

// txnKey identifies a transaction.
type txnKey struct {
	session [16]byte
	number  int64
}

// holding counts what is open through one connection.
type connOpenWork = atomic.Int32

// used is something open, and when it was used last.
type used struct {
	at     int64         // monotonic ns
	owner  *connOpenWork // of the connection that opened it
	stream bool          // a cursor that waits for what is to come: a drain does not wait for it
}

// ledger keeps the open cursors and transactions of a server, so that a drain
// can wait for them. It is bounded; what does not fit is not waited for.
type openWork struct {
	mu      sync.Mutex // guards the fields below; never held across a wait
	cursors map[int64]used
	txns    map[txnKey]used
	streams int   // of the cursors
	swept   int64 // monotonic ns of the last sweep; 0 = never
}

// opened notes that a reply at now (monotonic ns) left a cursor open. stream
// tells that it waits for what is to come; that is remembered.
func (l *openWork) opened(cursor, now int64, owner *connOpenWork, stream bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cursors == nil {
		l.cursors = map[int64]used{}
	}
	if u, ok := l.cursors[cursor]; ok {
		u.at = now
		l.cursors[cursor] = u
		return
	}
	if len(l.cursors) >= ledgerBound {
		l.sweepLocked(now)
	}
	switch {
	case len(l.cursors) >= ledgerBound:
		return
	case stream:
		l.streams++
	default:
		owner.Add(1)
	}
	l.cursors[cursor] = used{at: now, owner: owner, stream: stream}
}

// closed notes that a cursor is no more.
func (l *openWork) closed(cursor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked(cursor)
}

// closeLocked forgets a cursor.
func (l *openWork) closeLocked(cursor int64) {
	u, ok := l.cursors[cursor]
	switch {
	case !ok:
		return
	case u.stream:
		l.streams--
	default:
		u.owner.Add(-1)
	}
	delete(l.cursors, cursor)
}

// killed notes that the cursors that a killCursors names are no more.
func (l *openWork) killed(body []byte) {
	list, _ := mongowire.Lookup(body, "cursors")
	l.mu.Lock()
	defer l.mu.Unlock()
	var e mongowire.Element
	for s := list.Document(); s.Next(&e); {
		id, _ := e.Number()
		l.closeLocked(id)
	}
}

// began notes a transaction's use at now.
func (l *openWork) began(t txnKey, now int64, owner *connOpenWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.txns == nil {
		l.txns = map[txnKey]used{}
	}
	u, ok := l.txns[t]
	if !ok && len(l.txns) >= ledgerBound {
		l.sweepLocked(now)
	}
	switch {
	case ok:
	case len(l.txns) >= ledgerBound:
		return
	default:
		u.owner = owner
		owner.Add(1)
	}
	u.at = now
	l.txns[t] = u
}

// ended notes that a transaction was committed or aborted, by the client or by
// an error in it.
func (l *openWork) ended(t txnKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u, ok := l.txns[t]; ok {
		u.owner.Add(-1)
		delete(l.txns, t)
	}
}

// hasCursor reports whether the cursor is open, and whether it waits for what
// is to come.
func (l *openWork) hasCursor(cursor int64) (open, stream bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, ok := l.cursors[cursor]
	return ok, u.stream
}

// hasTxn reports whether the transaction is open.
func (l *openWork) hasTxn(t txnKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.txns[t]
	return ok
}

// continues reports whether the command goes on with what is open already: in
// a drain these pass, so that work is finished rather than cut.
func (l *openWork) continues(f *facts) bool {
	if t, inTxn := f.txn.key(); inTxn {
		return !f.txn.starts && l.hasTxn(t)
	}
	if f.cursor == 0 {
		return false
	}
	open, _ := l.hasCursor(f.cursor)
	return open
}

// open returns how many cursors and transactions are open as of now, without
// the cursors that a drain does not wait for.
func (l *openWork) open(now int64) (cursors, txns int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked(now)
	return len(l.cursors) - l.streams, len(l.txns)
}

// sweepLocked forgets what nobody uses any more, not more often than
// [sweepApart]: every connection of a drain asks, many times a second.
func (l *openWork) sweepLocked(now int64) {
	if l.swept != 0 && now-l.swept < int64(sweepApart) {
		return
	}
	l.swept = now
	for id, u := range l.cursors {
		if now-u.at > int64(cursorLife) {
			l.closeLocked(id)
		}
	}
	for t, u := range l.txns {
		if now-u.at > int64(txnLife) {
			u.owner.Add(-1)
			delete(l.txns, t)
		}
	}
}
