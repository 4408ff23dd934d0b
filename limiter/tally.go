package limiter

import "sync/atomic"

// tally counts the permits of one partition in one word, so that granting one is
// a single atomic operation: in the lower bits those held, in the upper ones
// those ever granted. The latter starts again after 1.7e13 permits: five years
// at 100,000 a second. Requests that are never refused could hold more permits
// than the lower bits count; they are then miscounted until enough have ended.
type tally struct{ word atomic.Uint64 }

const (
	heldBits   = 20
	maxHeld    = 1<<heldBits - 1 // more than anyone's limit
	oneHeld    = 1
	oneGranted = 1 << heldBits
)

// held returns the permits held.
func (t *tally) held() int64 { return int64(t.word.Load() & maxHeld) }

// granted returns the permits ever granted.
func (t *tally) granted() uint64 { return t.word.Load() >> heldBits }

// take adds one (oneHeld, with or without oneGranted) unless limit permits are
// held, and returns the permits then held. limit is at most maxHeld.
func (t *tally) take(limit int64, one uint64) (held int64, ok bool) {
	for {
		word := t.word.Load()
		held = int64(word & maxHeld)
		if held >= limit {
			return held, false
		}
		if t.word.CompareAndSwap(word, word+one) {
			return held + 1, true
		}
	}
}

// add adds one whatever is held, and returns the permits then held.
func (t *tally) add(one uint64) int64 { return int64(t.word.Add(one) & maxHeld) }

// release gives one permit back.
func (t *tally) release() { t.word.Add(^uint64(oneHeld - 1)) }
