package selection

import "time"

// alpha is the weight of a new round trip: about 85 % of the average comes
// from the nine newest.
const alpha = 0.2

// RTT is an exponentially weighted moving average of round trip times. The
// zero value has no average, which is what an unavailable server has; zero
// with a sample is a measured round trip of zero. It is an immutable value.
type RTT struct {
	average time.Duration
	known   bool
}

// Add returns the average after one more sample. The first sample is the
// average; a negative one, which only a broken clock yields, is ignored.
func (r RTT) Add(sample time.Duration) RTT {
	switch {
	case sample < 0:
		return r
	case !r.known:
		return RTT{average: sample, known: true}
	}
	// Half a nanosecond is added so that the conversion rounds.
	avg := alpha*float64(sample) + (1-alpha)*float64(r.average) + 0.5
	return RTT{average: time.Duration(avg), known: true}
}

// Average returns the average, and false when there is none.
func (r RTT) Average() (time.Duration, bool) { return r.average, r.known }
