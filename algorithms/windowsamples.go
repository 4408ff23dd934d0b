package algorithms

import (
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// gathered is the samples of one window, from many goroutines at a time.
type windowSamples struct {
	peak      atomic.Int64  // of permits in flight
	plain     parts.Sum     // of good samples, unless bins counts them
	bad       parts.Sum     // of dropped samples
	slow      atomic.Uint64 // good samples over the target
	stale     atomic.Uint64 // old news since the beginning
	discarded atomic.Uint64 // impossible samples since the beginning
	impatient atomic.Uint64 // departures that taught nothing since the beginning
	measured  atomic.Int64  // latency of the window before, ns; 0 = none yet
	bins      *histogram
	counts    *[binCount]uint32 // what bins are drained into
}

// meet keeps the highest in flight.
func (g *windowSamples) meet(inFlight int64) {
	for peak := g.peak.Load(); inFlight > peak && !g.peak.CompareAndSwap(peak, inFlight); {
		peak = g.peak.Load()
	}
}

// add adds a good sample and reports whether the window is full.
func (g *windowSamples) add(latency time.Duration) (full bool) {
	if g.bins != nil {
		g.bins.add(latency)
		return false
	}
	_, full = g.plain.Add(latency)
	return full
}

// addBad adds a sample that speaks against the limit. Permits granted before
// the last cut were granted under a limit that is gone, so what became of them
// must not cut again.
func (g *windowSamples) addBad(now int64, latency time.Duration, dropped bool, cut int64) (full bool) {
	latency = min(max(latency, 1), parts.MaxLatency)
	switch {
	case now-int64(latency) < cut:
		g.stale.Add(1)
		return false
	case dropped:
		_, full = g.bad.Add(latency)
		return full
	}
	g.slow.Add(1)
	return g.add(latency)
}

// count returns the good and the dropped samples so far.
func (g *windowSamples) count() (good, bad int) {
	if g.bins != nil {
		return g.bins.count(), int(g.bad.Count())
	}
	return int(g.plain.Count()), int(g.bad.Count())
}

// drain empties the window. Samples that arrive meanwhile belong to one window or
// the other, never to both. good and bad are the sums of the latencies, in
// nanoseconds.
func (g *windowSamples) drain(elapsed time.Duration, q float64) (s summary, good, bad float64) {
	s = summary{elapsed: elapsed, peak: int(g.peak.Swap(0)), slow: int(g.slow.Swap(0))}
	s.bad, bad = g.bad.Drain()
	if g.bins != nil {
		s.good = g.bins.drain(g.counts)
		good = total(g.counts)
		s.rtt = quantile(g.counts, s.good, q)
	} else if s.good, good = g.plain.Drain(); s.good > 0 {
		s.rtt = good / float64(s.good)
	}
	return s, good, bad
}
