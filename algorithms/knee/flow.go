package knee

import (
	"math"
	"time"
)

// flow is how much is served, per ns, and how much that keeps at work.
type flow struct {
	rate     float64 // now
	before   float64 // before this episode
	verified float64 // when a drain last told; 0 = never in this episode
	memory   float64 // the highest of the last minute
	work     float64 // the most that was at work without a queue, forgotten in a minute
}

// smooth follows throughput over the last samples, and forgets them when it has
// moved by more than their noise.
func (f *flow) smooth(x, elapsed, n float64) {
	weight := n / (n + 256)
	if d := x - f.rate; d*d*elapsed > 16*math.Max(f.rate, x) {
		weight = 1
	}
	f.rate += weight * (x - f.rate)
}

// learn takes a window that refused next to nothing.
func (f *flow) learn(w *window) {
	f.rate += 0.5 * (w.rate() - f.rate)
	f.before, f.verified = f.rate, 0
}

// remember takes what a window that refused next to nothing had at work, where
// the baseline is sure.
func (f *flow) remember(w *window, base float64) {
	f.work *= fade(w.elapsed, 60e9)
	if more := f.rate*base - f.work; more > 0 {
		f.work += w.count() / (w.count() + 200) * more
	}
}

// every is the distance of the moments at which to look whether the baseline still
// holds: about a latency at the beginning of an episode and when throughput has
// changed, hundreds of them later. It is a power of two parts of a second, and
// counted from the common zero, so that gates that know nothing of each other but
// see the same queue drain at the same moments.
func (f *flow) every(w *window) int64 {
	every := int64(4 * time.Second)
	// A drain takes some latencies: it is not asked for more often than each thirty.
	want := math.Min(400*w.mean(), math.Max(float64(32*time.Second), 30*w.mean()))
	if f.verified == 0 || f.rate < 0.75*f.verified || f.rate > 1.35*f.verified {
		want, every = w.mean(), int64(time.Second/64)
	}
	for float64(every) < want && every < int64(time.Hour) {
		every *= 2
	}
	return every
}
