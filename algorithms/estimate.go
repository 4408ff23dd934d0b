package algorithms

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/platinummonkey/go-concurrency-limits/core"
)

// estimate is what the formulas share: the published limit and those who want
// to hear of it.
type estimate struct {
	published atomic.Int64

	mu        sync.Mutex // guards listeners and the fields of the formula that embeds this
	listeners []core.LimitChangeListener
}

// EstimatedLimit returns the present limit. It is one atomic load, so a
// listener may call it.
func (e *estimate) EstimatedLimit() int { return int(e.published.Load()) }

// NotifyOnChange registers consumer, which is called after each change of the
// limit with no lock held.
func (e *estimate) NotifyOnChange(consumer core.LimitChangeListener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners = append(e.listeners, consumer)
}

// update replaces the limit by what step returns and tells the listeners when
// it changed. step runs with mu held.
func (e *estimate) update(step func() int) {
	limit, listeners := e.updateLocked(step)
	for _, tell := range listeners {
		tell(limit)
	}
}

// updateLocked returns the new limit and, when it changed, the listeners to
// be told. Appending never changes the elements of the slice returned.
func (e *estimate) updateLocked(step func() int) (int, []core.LimitChangeListener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	limit := step()
	if int64(limit) == e.published.Swap(int64(limit)) {
		return limit, nil
	}
	return limit, e.listeners
}

// mix returns (1-weight)*old + weight*fresh. The conversions forbid fused
// multiply-add, so that every machine computes the same limit.
func mix(old, fresh, weight float64) float64 {
	return float64((1-weight)*old) + float64(weight*fresh)
}

// Log10 is max(1, log10(limit)) rounded down: how much Vegas moves by, and
// the queue it takes for none. It divides, because math.Log10(1000) is just
// below 3.
func Log10(limit int) int {
	digits := 1
	for limit /= 100; limit > 0; limit /= 10 {
		digits++
	}
	return digits
}

// Sqrt is the square root of limit rounded down, at least 1.
func Sqrt(limit int) int {
	return max(1, int(math.Sqrt(float64(max(limit, 0)))))
}

// constant returns a function that ignores the limit.
func constant(n int) func(int) int { return func(int) int { return n } }

// randomOr returns source, or the process's random numbers when it is nil.
func randomOr(source func() uint64) func() uint64 {
	if source == nil {
		return rand.Uint64
	}
	return source
}

// fraction returns a number in [0, 1) from 53 random bits.
func fraction(source func() uint64) float64 { return float64(source()>>11) / (1 << 53) }
