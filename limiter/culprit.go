package limiter

import (
	"sync"
	"sync/atomic"
	"time"
)

// How a culprit is capped.
const (
	culpritEvery = int64(100e6) // ns between two turns
	culpritFall  = 0.5          // of the cap, for each turn in which others found no room
	culpritCalm  = 20           // turns without that before the cap rises
	culpritRise  = 1.1
	culpritShare = 0.5 // of the time at the backend makes one,
	culpritCost  = 2   // when a request takes so many times the mean
)

// culprit is the shape of a partition that takes more than half of its backend's
// time, and how many permits it may hold. When others find no room it is capped
// before they are refused for long; while they find room it is not.
type culprit struct {
	shape   atomic.Pointer[Shape] // nil = nobody is capped
	cap     atomic.Int64
	held    atomic.Int64 // permits of the shape that were granted since it is capped
	victims atomic.Int64 // others that found no room, since the last turn
	due     atomic.Int64 // monotonic ns of the next turn

	mu      sync.Mutex // guards the fields below; never held across a wait
	suspect *Shape     // by majority vote over time
	votes   float64    // ns by which it leads
	all     float64    // ns, both decayed each turn
	own     float64    // ns of the suspect
	calm    int        // turns without victims
}

// capped reports whether a request of the shape finds its cap reached.
func (c *culprit) capped(s *Shape) bool {
	return s != nil && c.shape.Load() == s && c.held.Load() >= c.cap.Load()
}

// unroomed notes that a request of the shape found no room.
func (c *culprit) unroomed(s *Shape) {
	if s != nil && c.shape.Load() != s {
		c.victims.Add(1)
	}
}

// ended notes what a request of the shape took, and turns when that is due. limit
// is the partition's.
func (c *culprit) ended(now int64, s *Shape, latency time.Duration, limit int64, cost func(*Shape) float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := float64(min(max(latency, 0), maxLatency))
	c.all += took
	switch {
	case c.suspect == s:
		c.votes += took
		c.own += took
	case c.votes > took:
		c.votes -= took
	default:
		c.suspect, c.votes, c.own = s, took-c.votes, took
	}
	if due := c.due.Load(); now >= due {
		c.due.Store(now + culpritEvery)
		c.turnLocked(limit, c.own > culpritShare*c.all && cost(c.suspect) >= culpritCost)
		c.all, c.own, c.votes = c.all*0.9, c.own*0.9, c.votes*0.9
	}
}

// turnLocked moves the cap; guilty says that the suspect takes too much.
func (c *culprit) turnLocked(limit int64, guilty bool) {
	victims := c.victims.Swap(0)
	switch bound := c.shape.Load(); {
	case victims > 0 && bound != c.suspect:
		if guilty {
			c.cap.Store(max(limit/2, 1))
			c.held.Store(0)
			c.shape.Store(c.suspect)
		}
		c.calm = 0
	case victims > 0:
		if c.calm > 0 { // once for each time that they complain
			c.cap.Store(max(int64(float64(min(c.cap.Load(), limit))*culpritFall), 1))
		}
		c.calm = 0
	case bound != nil:
		if c.calm++; c.calm >= culpritCalm {
			c.calm = 1
			c.cap.Store(int64(float64(c.cap.Load())*culpritRise) + 1)
		}
		if c.cap.Load() > limit {
			c.shape.Store(nil)
		}
	}
}
