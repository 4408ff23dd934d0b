package algorithms

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	binUnit  = 7   // log2 of the nanoseconds in the narrowest bin
	binSteps = 8   // bins per doubling
	binCount = 216 // reaches maxLatency
)

// histogram counts latencies in bins 1/8 of their size wide. Adding is one
// atomic add, and different latencies touch different memory.
type histogram [binCount]atomic.Uint32

// add counts a latency in (0, maxLatency].
func (h *histogram) add(latency time.Duration) {
	u := uint64(latency) >> binUnit
	shift := max(0, bits.Len64(u)-4)
	h[shift*binSteps+int(u>>shift)].Add(1)
}

// bin returns the lower edge and the width of bin i in nanoseconds.
func bin(i int) (low, width float64) {
	shift := max(0, i/binSteps-1)
	return float64((i - shift*binSteps) << (shift + binUnit)), float64(int(1) << (shift + binUnit))
}

// count returns how many latencies were added since the last drain.
func (h *histogram) count() int {
	n := 0
	for i := range h {
		n += int(h[i].Load())
	}
	return n
}

// drain empties h into counts and returns their sum.
func (h *histogram) drain(counts *[binCount]uint32) int {
	n := 0
	for i := range h {
		counts[i] = 0
		if h[i].Load() != 0 {
			counts[i] = h[i].Swap(0)
		}
		n += int(counts[i])
	}
	return n
}

// quantile returns the latency, in nanoseconds, below which the share q of the
// n counted ones lies, taking those of one bin as evenly spread.
func quantile(counts *[binCount]uint32, n int, q float64) float64 {
	rank := q * float64(n)
	for i, c := range counts {
		if c == 0 {
			continue
		}
		if rank <= float64(c) {
			low, width := bin(i)
			return low + width*rank/float64(c)
		}
		rank -= float64(c)
	}
	return 0
}

// total returns the sum of the counted latencies in nanoseconds, taking those
// of one bin as evenly spread.
func total(counts *[binCount]uint32) float64 {
	sum := 0.0
	for i, c := range counts {
		if c != 0 {
			low, width := bin(i)
			sum += float64(c) * (low + width/2)
		}
	}
	return sum
}
