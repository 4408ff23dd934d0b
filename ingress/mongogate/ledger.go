package mongogate

import (
	"sync"
	"time"
)

// How long the server keeps what nobody uses: entries older than this are
// forgotten.
const (
	cursorLife  = 10 * time.Minute
	txnLife     = time.Minute
	ledgerBound = 64 << 10
	sweepApart  = time.Second // between two searches for them
)

// txnKey identifies a transaction; the zero value is none.
type txnKey struct {
	session [16]byte
	number  int64
}

// ledger keeps the open cursors and transactions of a server, so that a drain
// can wait for them. It is bounded; what does not fit is not waited for.
type ledger struct {
	mu      sync.Mutex // guards the fields below; never held across a wait
	cursors map[int64]int64
	txns    map[txnKey]int64
	swept   int64 // monotonic ns of the last sweep; 0 = never
}

// opened notes that a reply at now (monotonic ns) left a cursor open.
func (l *ledger) opened(cursor, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cursors == nil {
		l.cursors = map[int64]int64{}
	}
	if len(l.cursors) >= ledgerBound {
		l.sweepLocked(now)
	}
	if len(l.cursors) < ledgerBound {
		l.cursors[cursor] = now
	}
}

// closed notes that a cursor is no more.
func (l *ledger) closed(cursor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.cursors, cursor)
}

// killed notes that the cursors that a killCursors names are no more.
func (l *ledger) killed(body []byte) {
	list, _ := lookup(body, "cursors")
	l.mu.Lock()
	defer l.mu.Unlock()
	var e element
	for s := list.doc(); s.next(&e); {
		id, _ := e.number()
		delete(l.cursors, id)
	}
}

// began notes a transaction's use at now.
func (l *ledger) began(t txnKey, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.txns == nil {
		l.txns = map[txnKey]int64{}
	}
	if len(l.txns) >= ledgerBound {
		l.sweepLocked(now)
	}
	if len(l.txns) < ledgerBound {
		l.txns[t] = now
	}
}

// ended notes that a transaction was committed or aborted.
func (l *ledger) ended(t txnKey) {
	if t == (txnKey{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.txns, t)
}

// knows reports whether the request continues an open cursor or transaction.
func (l *ledger) knows(cursor int64, t txnKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, open := l.cursors[cursor]
	_, running := l.txns[t]
	return open || running
}

// open returns how many cursors and transactions are open as of now.
func (l *ledger) open(now int64) (cursors, txns int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked(now)
	return len(l.cursors), len(l.txns)
}

// sweepLocked forgets what nobody uses any more, not more often than
// [sweepApart]: every connection of a drain asks, many times a second.
func (l *ledger) sweepLocked(now int64) {
	if l.swept != 0 && now-l.swept < int64(sweepApart) {
		return
	}
	l.swept = now
	forget(l.cursors, now, cursorLife)
	forget(l.txns, now, txnLife)
}

// forget removes what was last used longer than life before now.
func forget[K comparable](m map[K]int64, now int64, life time.Duration) {
	for k, at := range m {
		if now-at > int64(life) {
			delete(m, k)
		}
	}
}
