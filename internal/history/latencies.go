package history

import (
	"maps"
	"math"
	"slices"
	"time"
)

// quantilesOver is over how many readings quantiles are taken, a second each.
const quantilesOver = 10

// Latencies are counts by the upper bounds of their buckets, in seconds. Counts
// only grow; one that shrinks means that the buckets were drawn anew.
type Latencies map[float64]uint64

// latencies are those of the last seconds.
type latencies struct {
	window   []Latencies   // the last readings, the oldest first
	p50, p99 time.Duration // 0 = unknown
}

// take adds a reading.
func (l *latencies) take(now Latencies) {
	if now == nil {
		*l = latencies{}
		return
	}
	if n := len(l.window); n > 0 && !now.continues(l.window[n-1]) {
		l.window = nil
	}
	l.window = append(l.window, now)
	if len(l.window) > quantilesOver+1 {
		l.window = append(l.window[:0], l.window[1:]...)
	}
	l.p50, l.p99 = now.quantile(l.window[0], 0.5), now.quantile(l.window[0], 0.99)
}

// continues reports whether l is a later reading of the same buckets.
func (l Latencies) continues(old Latencies) bool {
	for bound, n := range old {
		if l[bound] < n {
			return false
		}
	}
	return true
}

// quantile returns the upper bound of the bucket that holds it, of what came on
// top of old; 0 when nothing did.
func (l Latencies) quantile(old Latencies, q float64) time.Duration {
	total := uint64(0)
	for bound, n := range l {
		total += n - old[bound]
	}
	rank, seen := uint64(math.Ceil(q*float64(total))), uint64(0)
	for _, bound := range slices.Sorted(maps.Keys(l)) {
		seen += l[bound] - old[bound]
		if total > 0 && seen >= rank {
			return time.Duration(bound * float64(time.Second))
		}
	}
	return 0
}

// Quantiles returns the median and the 99th percentile of the latency of an
// ingress over the last ten seconds, to the width of a bucket; 0 = unknown.
func (b *Book) Quantiles(name string) (p50, p99 time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.ingresses[name]; r != nil {
		return r.latencies.p50, r.latencies.p99
	}
	return 0, 0
}

// OwnQuantiles is [Book.Quantiles] of what the gate itself took of requests.
func (b *Book) OwnQuantiles(name string) (p50, p99 time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.ingresses[name]; r != nil {
		return r.own.p50, r.own.p99
	}
	return 0, 0
}
