package tuner

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// maxBins bounds what is kept of the past, per gate and partition.
const maxBins = 64

// bin is how a gate did for a few seconds.
type bin struct {
	from, to         time.Time
	offered, refused float64 // per second
	good             float64 // successes within the objective, per second
	p50, p99         float64 // seconds; NaN when too little succeeded
	inFlight, queued float64
}

// fewest successes of which a quantile is taken.
const fewest = 5

// history keeps the past of one gate or partition in bins.
type history struct {
	bins   []bin
	began  time.Time
	before Measurements
	known  bool
}

// note takes the counts at one moment. Every length it closes a bin and reports
// true.
func (h *history) note(now time.Time, v *Measurements, length time.Duration, objective float64) bool {
	if !h.known {
		h.before, h.began, h.known = *v, now, true
		return false
	}
	gone := now.Sub(h.began)
	if gone < length {
		return false
	}
	took, ok := v.Latency.since(h.before.Latency)
	if ok && v.Offered >= h.before.Offered && v.Refused >= h.before.Refused {
		s := gone.Seconds()
		h.bins = append(h.bins, bin{
			from: h.began, to: now,
			offered: float64(v.Offered-h.before.Offered) / s, refused: float64(v.Refused-h.before.Refused) / s,
			good: took.within(objective) / s, p50: took.quantile(.5), p99: took.quantile(.99),
			inFlight: float64(v.InFlight), queued: float64(v.Queued),
		})
	}
	if len(h.bins) > maxBins {
		h.bins = slices.Delete(h.bins, 0, len(h.bins)-maxBins)
	}
	h.before, h.began = *v, now
	return ok
}

// last returns the newest bin.
func (h *history) last() (bin, bool) {
	if h == nil || len(h.bins) == 0 {
		return bin{}, false
	}
	return h.bins[len(h.bins)-1], true
}

// between returns the bins that lie within two moments.
func (h *history) between(from, to time.Time) []bin {
	if h == nil {
		return nil
	}
	var out []bin
	for _, b := range h.bins {
		if !b.from.Before(from) && !b.to.After(to) {
			out = append(out, b)
		}
	}
	return out
}

// since returns what came on top of old; false when the counts began anew.
func (l Latencies) since(old Latencies) (Latencies, bool) {
	out := make(Latencies, len(l))
	for bound, n := range l {
		if n < old[bound] {
			return nil, false
		}
		if n > old[bound] {
			out[bound] = n - old[bound]
		}
	}
	for bound := range old {
		if _, ok := l[bound]; !ok {
			return nil, false // the buckets were drawn anew
		}
	}
	return out, true
}

func (l Latencies) total() (n uint64) {
	for _, c := range l {
		n += c
	}
	return n
}

// quantile is the upper bound of the bucket that holds it; NaN when there are
// too few.
func (l Latencies) quantile(q float64) float64 {
	n := l.total()
	if n < fewest {
		return math.NaN()
	}
	rank, seen := uint64(math.Ceil(q*float64(n))), uint64(0)
	for _, bound := range slices.Sorted(maps.Keys(l)) {
		if seen += l[bound]; seen >= rank {
			return bound
		}
	}
	return math.NaN()
}

// within counts those that took at most so many seconds; all when seconds is 0.
func (l Latencies) within(seconds float64) float64 {
	n := uint64(0)
	for bound, c := range l {
		if seconds <= 0 || bound <= seconds*1.05 { // a bucket that ends just behind the objective counts
			n += c
		}
	}
	return float64(n)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
