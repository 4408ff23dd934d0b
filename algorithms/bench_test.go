package algorithms_test

import (
	"testing"
	"time"
)

// What the end of every permit pays: one sample, windows closing every second
// of the clock that the loop moves by 1 us per sample.
func BenchmarkObserve(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			lim := newLimit(b, kind)
			var now int64
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				lim.Observe(now, 10*time.Millisecond, 20, false)
			}
		})
	}
}
