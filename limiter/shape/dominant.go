package shape

import (
	"sync"
	"sync/atomic"
	"time"
)

// How a culprit is capped.
const (
	dominantEvery = int64(100e6) // ns between two turns
	dominantFall  = 0.5          // of the cap, for each turn in which others found no room
	dominantCalm  = 20           // turns without that before the cap rises
	dominantRise  = 1.1
	dominantFade  = 0.9 // of what was seen, for each turn
	terms         = 4   // are told from each other
	dominantShare = 0.5 // of the time at the backend makes one,
	dominantCost  = 2   // when a request takes so many times what others take
)

// Dominant is the shape of a partition that takes more than half of its backend's
// time, and how many permits it may hold. When others find no room it is capped
// before they are refused for long; while they find room it is not. The zero Dominant is
// nobody. It is safe for concurrent use.
type Dominant struct {
	shape   atomic.Pointer[Shape] // nil = nobody is capped
	suspect atomic.Pointer[Shape] // who takes most, by majority vote over time
	cap     atomic.Int64
	held    atomic.Int64  // permits of the shape that were granted since it is capped
	term    atomic.Uint32 // counts the times that a shape was capped
	victims atomic.Int64  // others than the suspect that found no room, since the last turn
	due     atomic.Int64  // monotonic ns of the next turn

	mu       sync.Mutex // guards the fields below; never held across a wait
	votes    float64    // ns by which the suspect leads
	all, own taken      // of all, and of the suspect since it is one; decayed each turn
	calm     int        // turns without victims
}

// taken is what requests took at the backend.
type taken struct{ nanos, requests float64 }

// add adds one request.
func (t *taken) add(nanos float64) { t.nanos, t.requests = t.nanos+nanos, t.requests+1 }

// fade makes the past count less.
func (t *taken) fade() { t.nanos, t.requests = t.nanos*dominantFade, t.requests*dominantFade }

// Capped reports whether a request of the shape finds its cap reached.
func (c *Dominant) Capped(s *Shape) bool {
	return s != nil && c.shape.Load() == s && c.held.Load() >= c.cap.Load()
}

// Granted counts a permit of a shape that is capped, and returns the term of the
// culprit, 0 to 3, which [Dominant.Released] is to be told. Others are not counted.
func (c *Dominant) Granted(s *Shape) (term uint32, capped bool) {
	if c.shape.Load() != s {
		return 0, false
	}
	term = c.term.Load() % terms
	c.held.Add(1)
	return term, true
}

// Released counts the end of one that was counted, unless that was in an earlier term.
func (c *Dominant) Released(term uint32) {
	if c.term.Load()%terms == term {
		c.held.Add(-1)
	}
}

// Unroomed notes that a request of the shape found no room.
func (c *Dominant) Unroomed(s *Shape) {
	if s != nil && c.suspect.Load() != s {
		c.victims.Add(1)
	}
}

// Ended notes what a request of the shape, which is not nil, took by now, in monotonic
// ns, and turns when that is due. limit is the partition's in permits, latency above
// zero.
func (c *Dominant) Ended(now int64, s *Shape, latency time.Duration, limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := s.alone(float64(latency))
	c.all.add(took)
	switch {
	case c.suspect.Load() == s:
		c.votes += took
		c.own.add(took)
	case c.votes > took:
		c.votes -= took
	default:
		c.suspect.Store(s)
		c.votes, c.own = took-c.votes, taken{took, 1}
	}
	if due := c.due.Load(); now >= due {
		c.due.Store(now + dominantEvery)
		c.turnLocked(limit)
		c.all.fade()
		c.own.fade()
		c.votes *= dominantFade
	}
}

// guiltyLocked reports whether the suspect takes most of the time, and not because
// it is asked most.
func (c *Dominant) guiltyLocked() bool {
	others := taken{c.all.nanos - c.own.nanos, c.all.requests - c.own.requests}
	return c.own.nanos > dominantShare*c.all.nanos && others.requests > 0.5 && c.own.nanos/c.own.requests >= dominantCost*others.nanos/others.requests
}

// turnLocked moves the cap.
func (c *Dominant) turnLocked(limit int64) {
	victims := c.victims.Swap(0)
	switch bound := c.shape.Load(); {
	case victims > 0 && bound != c.suspect.Load():
		if c.guiltyLocked() {
			c.cap.Store(max(limit/2, 1))
			c.shape.Store(nil)
			c.term.Add(1)
			c.held.Store(0)
			c.shape.Store(c.suspect.Load())
		}
		c.calm = 0
	case victims > 0:
		if c.calm > 0 { // once for each time that they complain
			c.cap.Store(max(int64(float64(min(c.cap.Load(), limit))*dominantFall), 1))
		}
		c.calm = 0
	case bound != nil:
		if c.calm++; c.calm >= dominantCalm {
			c.calm = 1
			c.cap.Store(int64(float64(c.cap.Load())*dominantRise) + 1)
		}
		if c.cap.Load() > limit {
			c.shape.Store(nil)
		}
	}
}
