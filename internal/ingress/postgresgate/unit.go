package postgresgate

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
)

// unit is what the client sends up to a ReadyForQuery; the client's side only.
type unit struct {
	open     bool  // some of it was passed
	synced   bool  // its end was passed: the next one begins when this is answered
	simple   bool  // it is a simple query or a function call
	parsed   bool  // a Parse was passed
	closes   bool  // what was passed only closes, which cannot fail
	flushed  bool  // a Flush was the last that was passed
	asked    int32 // how many messages were passed that have an answer each
	admitted bool  // nothing of it needs a permit any more
	free     bool  // unless what comes does more than what did so far
	copied   bool  // the client ended its rows
	ended    bool  // and the Sync behind them was passed
	refused  bool  // what follows up to Sync is swallowed
}

// needs reports whether a message of the extended protocol needs a permit that
// its unit does not have.
func (u *unit) needs(kind byte, st *task) bool {
	switch {
	case st.N == 0:
		return false
	case kind == msgExecute: // its Bind has seen to that
		return !u.admitted
	default:
		return !u.admitted || u.free && st.Op != sqltext.OpFree
	}
}

// unsent is what the client owes the server: rows, or the end of a unit.
type unsent struct {
	copy atomic.Uint32
	// rows is how often the server began to take rows, less how often the client
	// ended them, in the unit that is at work.
	rows atomic.Int32
	half atomic.Bool // a unit was begun, and its Sync has not come
}

// How far copying into the server has come in the unit that is at work.
const (
	copyNone  uint32 = iota
	copyTakes        // the server takes rows, and ignores a Sync
	copyOver         // it took some, and failed
)

// whole notes that no unit is half sent.
func (u *unsent) whole() {
	if u.half.Load() {
		u.half.Store(false)
	}
}

// answered notes that the server owes no answer and takes no rows.
func (u *unsent) answered() {
	u.copy.Store(copyNone)
	u.rows.Store(0)
}

// waits says for how long a server whose client has gone may be silent before it is
// taken to wait for it; 0 = it does not. A server that takes rows does little else;
// one that has a unit without its Sync may be at work, so that only a silence in
// which everybody else would be cut, patience, tells that nobody works.
func (u *unsent) waits(patience time.Duration) time.Duration {
	switch {
	case u.copy.Load() == copyTakes && u.rows.Load() > 0:
		return time.Nanosecond
	case u.half.Load():
		return patience
	}
	return 0
}

// endRows returns what fails the copying of a client that has gone, once; nil
// while the server takes no rows.
func (u *unsent) endRows() []byte {
	if !u.copy.CompareAndSwap(copyTakes, copyOver) {
		return nil
	}
	return appendMessage(failCopy(), msgSync) // the one that came before the rows was ignored
}

// failCopy returns a message that fails the copying that is at work, if any.
func failCopy() []byte { return appendMessage(nil, msgCopyFail, []byte("client has gone\x00")...) }
