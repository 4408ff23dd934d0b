package algorithms_test

import (
	"testing"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/limiter/limittest"
)

var kinds = algorithms.Kinds()

// Every algorithm keeps what all limits must keep.
func TestLimits(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { limittest.Run(t, func() limiter.Limit { return newLimit(t, kind) }) })
	}
}

// newLimit returns the algorithm with the defaults and reproducible probes.
func newLimit(tb testing.TB, kind string) algorithms.Limit {
	tb.Helper()
	s := algorithms.Settings{Algorithm: kind}
	s.Rand = lcg(3)
	lim, err := algorithms.New(s)
	if err != nil {
		tb.Fatal(err)
	}
	return lim
}

// lcg returns reproducible random numbers.
func lcg(state uint64) func() uint64 {
	return func() uint64 {
		state = state*6364136223846793005 + 1442695040888963407
		return state
	}
}
