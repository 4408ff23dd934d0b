package algorithms

import "math"

// maxNoise bounds what is taken for noise: more than that is news.
const maxNoise = 0.15

// noise is how much a window's mean latency varies without a cause, as a share
// of it: the standard error of the mean, seen from window to window. The mean
// absolute difference of two normal values is 2/√π of their deviation.
//
// Its methods are called under the lock of the [Window] that feeds it.
type noise struct {
	last  float64 // ns
	share float64
}

// add weighs in the mean of one window.
func (n *noise) add(rtt float64) {
	if n.last > 0 {
		share := math.Min(math.Abs(rtt-n.last)/n.last*math.Sqrt(math.Pi)/2, maxNoise)
		n.share = mix(n.share, share, 0.1)
	}
	n.last = rtt
}

// queue is what two standard errors look like to a formula that takes the
// difference to the lowest mean it ever saw for a queue.
func (n *noise) queue(limit int) int {
	return int(math.Ceil(2 * n.share * float64(limit)))
}
