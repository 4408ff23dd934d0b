package knee

import (
	"math"
	"time"
)

// trialRatio is the ratio of latencies by which a verdict that raised the limit was
// wrong.
const trialRatio = 1.25

// trial is a verdict that raised the limit, and what to return to should it turn
// out wrong.
type trial struct {
	doubt    float64 // the baseline before it, ns; 0 = none is on trial
	measured float64 // that of the verdict
	least    float64 // the lowest latency of a window since
	wasWork  float64 // and what was at work
	until    int64   // for a moment the limit grows without asking again
}

// grace lets the limit grow for a second and a few latencies.
func (t *trial) grace(now int64, base float64) {
	t.until = now + int64(time.Second) + int64(4*base)
}

// isOver reports that the moment of grace has passed.
func (t *trial) isOver(now int64) bool { return now >= t.until }

// failed reports that a verdict does not hold: with more in flight latency went up,
// and throughput did not. was is how many were in flight before it, by Little's
// law, and verified the throughput then.
func (t *trial) failed(w *window, base, was, verified float64) bool {
	if t.doubt == 0 {
		return false
	}
	if w.count() >= 8 {
		t.least = math.Min(t.least, w.mean())
	}
	if w.mean() < trialRatio*base {
		return false
	}
	more := w.latency / w.elapsed / was
	return more < 1.1 || math.Log(w.rate()/verified) < 0.3*math.Log(more)
}
