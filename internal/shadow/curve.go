package shadow

import (
	"math"
	"time"

	"github.com/admitd/admitd/limiter"
)

// What the curve is made of.
const (
	curveExact   = 16 // requests in flight up to which each number has a place
	curveOctave  = 8  // places per doubling above it
	curvePlaces  = curveExact + 17*curveOctave
	curveTrusted = 128  // samples that make a place count
	curveMemory  = 4096 // samples over which a place averages
	curveGap     = 1.5  // between two places, beyond which a chord is not trusted
	curveAge     = 10 * time.Minute
	curveRisen   = 1.25 // latency, over that with few in flight, that shows a queue
	curveDrawn   = 64   // samples of a place that are drawn from
	curveReady   = 100  // samples before anything is predicted
)

// curve is what was seen of the backend: how long it takes with n requests in
// flight, and how far single requests differ from that.
type curve struct {
	places [curvePlaces]place
	seen   int // samples ever
}

// place averages the samples with about as many in flight.
type place struct {
	samples int
	n       float64 // in flight
	latency float64 // ns
	at      int64   // ns of the last one
	drawn   [curveDrawn]sample
	next    int     // in drawn; counts on
	sum     float64 // of the latencies in drawn
}

// sample is one request that ended.
type sample struct {
	latency float64 // ns
	outcome limiter.Outcome
}

// placeOf returns the place of n in flight.
func placeOf(n int) int {
	if n <= curveExact {
		return max(n, 1) - 1
	}
	return min(curveExact+int(math.Log2(float64(n)/curveExact)*curveOctave), curvePlaces-1)
}

// ready reports whether enough was seen to predict anything.
func (c *curve) ready(now int64) bool { return c.seen >= curveReady && c.near(now, 0, 1) != nil }

// learn takes one request that ended at now with n in flight, itself included.
func (c *curve) learn(now int64, n int, latency time.Duration, o limiter.Outcome) {
	if latency <= 0 {
		return
	}
	p := &c.places[placeOf(max(n, 1))]
	if p.samples > 0 && now-p.at > int64(curveAge) {
		*p = place{}
	}
	if o != limiter.Ignored { // which ended for a reason of its own
		p.samples = min(p.samples+1, curveMemory)
		weight := 1 / float64(p.samples)
		p.n += weight * (float64(max(n, 1)) - p.n)
		p.latency += weight * (float64(latency) - p.latency)
		p.at = now
		c.seen++
	}
	if p.latency > 0 {
		s := &p.drawn[p.next%curveDrawn]
		p.sum += float64(latency) - s.latency
		*s = sample{latency: float64(latency), outcome: o}
		p.next++
	}
}

// draw returns how a request would go with n in flight, itself included. beyond
// reports that about as many were never seen, so that it is a guess.
func (c *curve) draw(now int64, n int, random uint64) (latency time.Duration, o limiter.Outcome, beyond bool) {
	expected, from, beyond := c.at(now, float64(n))
	if from == nil {
		return time.Millisecond, limiter.Success, false
	}
	drawn := min(from.next, curveDrawn)
	s := from.drawn[random%uint64(drawn)]
	ratio := s.latency * float64(drawn) / from.sum // to the mean of those that are drawn from
	return max(time.Duration(expected*ratio), 1), s.outcome, beyond
}

// trusted reports whether a place counts.
func (p *place) trusted(now int64) bool {
	return p.samples >= curveTrusted && now-p.at <= int64(curveAge)
}

// near returns the nearest place that counts from i on, in steps of by; nil when
// there is none.
func (c *curve) near(now int64, i, by int) *place {
	for ; i >= 0 && i < curvePlaces; i += by {
		if p := &c.places[i]; p.trusted(now) {
			return p
		}
	}
	return nil
}

// at returns the mean latency in ns with n in flight, and the nearest place that
// knows how single requests differ; nil = nothing was seen. beyond reports that n
// is far from what was seen. With more the backend is assumed to give no more
// throughput than with what was seen, so that a candidate is rather warned of than
// praised.
func (c *curve) at(now int64, n float64) (latency float64, from *place, beyond bool) {
	i := placeOf(int(math.Round(n)))
	low, high := c.near(now, i, -1), c.near(now, i+1, 1)
	if low != nil && low.n > n { // n is in the lower half of low's place
		if high = low; i > 0 {
			low = c.near(now, i-1, -1)
		} else {
			low = nil
		}
	}
	switch {
	case low == nil && high == nil:
		return 0, nil, false
	case high == nil:
		return low.latency * max(n/low.n, 1), low, n > 1.15*low.n+1
	case low == nil:
		latency, guess := c.below(now, high, n)
		return latency, high, guess
	}
	share := min(max((n-low.n)/max(high.n-low.n, 1e-9), 0), 1)
	if from = low; share > 0.5 {
		from = high
	}
	latency = low.latency + share*(high.latency-low.latency)
	if high.n > curveGap*low.n {
		// Latency is flat as long as there are workers, and then grows with the
		// queue: a long chord would see a queue where there is none yet.
		latency = max(min(low.latency, high.latency), high.latency*n/high.n)
	}
	return latency, from, false
}

// below continues the curve before its first place, which may be in a queue
// already: then throughput stays, and latency shrinks. That is a guess, as what was
// seen may have been the work itself.
func (c *curve) below(now int64, first *place, n float64) (latency float64, guess bool) {
	double := c.near(now, placeOf(int(2*first.n)), 1)
	if double != nil && double.latency < curveRisen*first.latency {
		return first.latency, false
	}
	return first.latency * min(n/first.n, 1), first.n > 1.15*n+1
}
