package parts

import (
	"sync/atomic"
	"time"
)

// Samples outside these bounds say more of a clock or a caller than of a
// backend.
const (
	MaxLatency  = time.Minute
	maxInFlight = 1 << 24
)

// Possible reports whether a sample can be true. Of a drop the latency does not
// matter.
func Possible(latency time.Duration, inFlight int, dropped bool) bool {
	return uint(inFlight-1) < maxInFlight && (uint64(latency-1) < uint64(MaxLatency) || dropped)
}

// A sum is one word, so that a sample is one atomic add: how many in the upper
// bits, their latencies in units of 1024 ns in the lower ones.
const (
	sumBits  = 44
	sumMask  = 1<<sumBits - 1
	sumUnit  = 10
	fullSum  = 1 << (sumBits - 1)
	FullSize = 1 << (64 - sumBits - 1) // samples; half of what a [sum] can count
)

// Sum counts latencies and adds them up. The zero value is empty. It is safe for
// concurrent use; whoever adds closes the window when one is half full.
type Sum struct{ word atomic.Uint64 }

// Add adds a latency in (0, maxLatency], one of less than a unit as a unit: a mean of
// 0 would be divided by. It returns how many there are, and
// whether the sum is half full.
func (s *Sum) Add(latency time.Duration) (n int64, full bool) {
	word := s.word.Add(1<<sumBits | max(uint64(latency)>>sumUnit, 1))
	return int64(word >> sumBits), word>>sumBits >= FullSize || word&sumMask >= fullSum
}

// Count returns how many latencies were added.
func (s *Sum) Count() int64 { return int64(s.word.Load() >> sumBits) }

// Drain empties the sum and returns how many latencies there were, and their sum in
// nanoseconds.
func (s *Sum) Drain() (n int, ns float64) {
	word := s.word.Swap(0)
	return int(word >> sumBits), float64(word & sumMask << sumUnit)
}
