package shadow

import (
	"math"
	"math/bits"
	"time"

	"github.com/admitd/admitd/labels"
)

// Times over which recent counts are kept.
const (
	slotLength = time.Minute
	slotCount  = 5
)

// histogramStep is how many bins a doubling of the latency has: 4.4 %.
const (
	histogramStep = 16
	histogramBins = 28 * histogramStep // from 1 µs to 4 min
)

// tally counts what a candidate would have done.
type tally struct {
	offered, refused, forNothing uint64
	admitted, beyond             uint64
	enforced                     uint64 // refused by the enforced gate
	reasons                      map[labels.Reason]uint64
	latencies                    [histogramBins]uint32
}

func (t *tally) refuse(r labels.Reason) {
	t.refused++
	if t.reasons == nil {
		t.reasons = map[labels.Reason]uint64{}
	}
	t.reasons[r]++
}

// record notes the latency of a request that the candidate admitted.
func (t *tally) record(d time.Duration) {
	us := max(d.Microseconds(), 1)
	whole := bits.Len64(uint64(us)) - 1
	i := whole*histogramStep + int(histogramStep*math.Log2(float64(us)/float64(int64(1)<<whole)))
	t.latencies[min(i, histogramBins-1)]++
}

// add adds what o counted.
func (t *tally) add(o *tally) {
	t.offered += o.offered
	t.refused += o.refused
	t.forNothing += o.forNothing
	t.admitted += o.admitted
	t.beyond += o.beyond
	t.enforced += o.enforced
	for r, n := range o.reasons {
		if t.reasons == nil {
			t.reasons = map[labels.Reason]uint64{}
		}
		t.reasons[r] += n
	}
	for i, n := range o.latencies {
		t.latencies[i] += n
	}
}

// quantile returns the latency at q; 0 = nothing was recorded.
func (t *tally) quantile(q float64) time.Duration {
	var all uint64
	for _, n := range t.latencies {
		all += uint64(n)
	}
	rest := uint64(math.Ceil(q * float64(all)))
	for i, n := range t.latencies {
		if rest <= uint64(n) && n > 0 {
			return time.Duration(math.Exp2((float64(i)+0.5)/histogramStep) * float64(time.Microsecond))
		}
		rest -= uint64(n)
	}
	return 0
}

// counts are a tally of all times, and those of the last minutes.
type counts struct {
	total  tally
	slots  [slotCount]tally
	minute [slotCount]int64 // that a slot is of
}

// at returns the tally of the minute.
func (c *counts) at(now int64) *tally {
	minute := now / int64(slotLength)
	i := minute % slotCount
	if c.minute[i] != minute {
		c.slots[i], c.minute[i] = tally{}, minute
	}
	return &c.slots[i]
}

// count has f count in both.
func (c *counts) count(now int64, f func(t *tally)) {
	f(&c.total)
	f(c.at(now))
}

// recent sums up the last minutes.
func (c *counts) recent(now int64) *tally {
	sum := &tally{}
	for i := range c.slots {
		if c.minute[i] > now/int64(slotLength)-slotCount {
			sum.add(&c.slots[i])
		}
	}
	return sum
}
