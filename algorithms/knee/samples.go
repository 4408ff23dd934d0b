package knee

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// samples gathers those of one window, from many goroutines at a time.
type samples struct {
	calmly, busily class
	peak           atomic.Int64
	dropped        atomic.Uint64
	discarded      atomic.Uint64 // impossible samples since the beginning
	departures     departures
}

// class is the samples that were admitted at few, or at many, in flight.
type class struct {
	latency parts.Sum
	held    atomic.Uint64 // sum of permits in flight at grant
}

// add adds a sample that can be true, calm when at most that many were in flight,
// and returns how many there are of its kind.
func (s *samples) add(latency time.Duration, inFlight int, dropped bool, calm int64) (count int64) {
	for peak := s.peak.Load(); int64(inFlight) > peak && !s.peak.CompareAndSwap(peak, int64(inFlight)); {
		peak = s.peak.Load()
	}
	switch {
	case dropped:
		return int64(s.dropped.Add(1))
	case int64(inFlight) <= calm:
		return s.calmly.add(latency, inFlight)
	default:
		return s.busily.add(latency, inFlight)
	}
}

// drain empties the window. Samples that arrive meanwhile belong to one window
// or the other, never to both.
func (s *samples) drain(elapsed int64) window {
	w := window{elapsed: float64(elapsed), peak: int(s.peak.Swap(0)), dropped: int(s.dropped.Swap(0))}
	var calm, busy, calmHeld, busyHeld float64
	w.calm, calm, calmHeld = s.calmly.drain()
	w.busy, busy, busyHeld = s.busily.drain()
	w.latency, w.held = calm+busy, calmHeld+busyHeld
	w.calmLatency, w.calmHeld = calm, calmHeld
	w.left = s.departures.drain()
	return w
}

func (c *class) add(latency time.Duration, inFlight int) (count int64) {
	c.held.Add(uint64(inFlight))
	count, _ = c.latency.Add(latency)
	return count
}

// drain empties the class.
func (c *class) drain() (n int, latency, held float64) {
	n, latency = c.latency.Drain()
	return n, latency, float64(c.held.Swap(0))
}
