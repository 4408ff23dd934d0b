package shadow

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter"
)

// ringSize is how many records may wait: some milliseconds of a busy gate. What
// comes when the ring is full is lost and counted.
const ringSize = 1 << 13

// The kinds of record.
const (
	decided = iota
	waited
	ended
)

// record is one call of the witness.
type record struct {
	kind    uint8
	verdict limiter.Verdict
	outcome limiter.Outcome
	now     int64
	before  int64 // when it was offered (waited) or granted (ended)
	latency time.Duration
	req     limiter.Request
}

// ring carries records from many goroutines to one, without locks: a writer
// takes a position, and marks the slot as written when it is done.
type ring struct {
	slots [ringSize]slot
	_     [64]byte // keeps what writers share off the lines of others
	head  atomic.Uint64
	_     [64]byte
	tail  uint64 // of the reader
	lost  atomic.Uint64
}

// slot holds one record. turn is the position that may write it, or one more
// once it is written.
type slot struct {
	turn atomic.Uint64
	rec  record
}

func newRing() *ring {
	r := &ring{}
	for i := range r.slots {
		r.slots[i].turn.Store(uint64(i))
	}
	return r
}

// claim returns the slot of the next record; nil when the ring is full. Who
// writes it calls put.
func (r *ring) claim() (s *slot, at uint64) {
	for {
		at = r.head.Load()
		s = &r.slots[at%ringSize]
		switch turn := s.turn.Load(); {
		case turn == at:
			if r.head.CompareAndSwap(at, at+1) {
				return s, at
			}
		case turn < at:
			r.lost.Add(1)
			return nil, 0
		}
	}
}

// put hands a claimed slot to the reader.
func (s *slot) put(at uint64) { s.turn.Store(at + 1) }

// take returns the oldest record, false when none is written yet. It is for the
// one reader.
func (r *ring) take(out *record) bool {
	s := &r.slots[r.tail%ringSize]
	if s.turn.Load() != r.tail+1 {
		return false
	}
	*out = s.rec
	s.rec.req.Key = "" // not kept alive
	s.turn.Store(r.tail + ringSize)
	r.tail++
	return true
}
