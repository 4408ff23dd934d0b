package algorithms_test

import (
	"testing"

	"github.com/admitd/admitd/algorithms"
)

// The thresholds are whole numbers at every power, where logarithms and roots
// in floating point fall just short.
func TestThresholdFunctions(t *testing.T) {
	for _, tc := range []struct{ limit, log10, sqrt int }{
		{-5, 1, 1},
		{0, 1, 1},
		{1, 1, 1},
		{9, 1, 3},
		{10, 1, 3},
		{99, 1, 9},
		{100, 2, 10},
		{999, 2, 31},
		{1000, 3, 31},
		{9999, 3, 99},
		{10_000, 4, 100},
		{1_000_000, 6, 1000},
	} {
		if got := algorithms.Log10(tc.limit); got != tc.log10 {
			t.Errorf("Log10(%d) = %d; want %d", tc.limit, got, tc.log10)
		}
		if got := algorithms.Sqrt(tc.limit); got != tc.sqrt {
			t.Errorf("Sqrt(%d) = %d; want %d", tc.limit, got, tc.sqrt)
		}
	}
}
