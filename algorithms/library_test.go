package algorithms_test

import (
	"testing"

	"github.com/platinummonkey/go-concurrency-limits/core"
	"github.com/platinummonkey/go-concurrency-limits/limit"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/algorithms"
)

// Where the library can be brought to the reference, by a threshold one higher
// for Vegas and without drops for Gradient, ours and the library's compute the
// same limit, whatever the parameters and the samples.
func TestAgreesWithTheLibrary(t *testing.T) {
	t.Run("vegas", rapid.MakeCheck(func(t *rapid.T) {
		initial := rapid.IntRange(1, 1200).Draw(t, "initial")
		high := rapid.IntRange(1, 2000).Draw(t, "max")
		alpha := rapid.IntRange(1, 20).Draw(t, "alpha")
		beta := rapid.IntRange(1, 40).Draw(t, "beta")
		smoothing := rapid.Float64Range(0.01, 1).Draw(t, "smoothing")
		ours := algorithms.NewVegas(algorithms.VegasOptions{
			InitialLimit: initial, MaxLimit: high, Alpha: alpha, Beta: beta, Smoothing: smoothing, ProbeMultiplier: -1,
		})
		theirs := limit.NewVegasLimitWithRegistry(
			"", initial, nil, high, smoothing,
			func(int) int { return alpha }, func(int) int { return beta },
			func(n int) int { return algorithms.Log10(n) + 1 },
			func(n float64) float64 { return n + float64(algorithms.Log10(int(n))) },
			func(n float64) float64 { return n - float64(algorithms.Log10(int(n))) },
			1_000_000_000, nil, nil,
		)
		compare(t, ours, theirs, true)
	}))
	t.Run("gradient", rapid.MakeCheck(func(t *rapid.T) {
		low := rapid.IntRange(1, 50).Draw(t, "min")
		high := rapid.IntRange(low, 2000).Draw(t, "max")
		initial := rapid.IntRange(low, high).Draw(t, "initial")
		tolerance := rapid.Float64Range(1, 4).Draw(t, "tolerance")
		smoothing := rapid.Float64Range(0.01, 1).Draw(t, "smoothing")
		queue := func(n int) int { return max(4, algorithms.Sqrt(n)) }
		ours := algorithms.NewGradient(algorithms.GradientOptions{
			InitialLimit: initial, MinLimit: low, MaxLimit: high, RTTTolerance: tolerance, Smoothing: smoothing, ProbeInterval: -1,
		})
		theirs := limit.NewGradientLimitWithRegistry("", initial, low, high, smoothing, queue, tolerance, limit.ProbeDisabled, nil, nil)
		compare(t, ours, theirs, false)
	}))
}

// compare feeds both the same samples.
func compare(t *rapid.T, ours, theirs core.Limit, drops bool) {
	t.Helper()
	for i := range 200 {
		rtt := rapid.Int64Range(1_000_000, 40_000_000).Draw(t, "rtt")
		inFlight := rapid.IntRange(1, 1500).Draw(t, "in flight")
		dropped := drops && rapid.IntRange(0, 9).Draw(t, "dropped") == 0
		ours.OnSample(0, rtt, inFlight, dropped)
		theirs.OnSample(0, rtt, inFlight, dropped)
		if got, want := ours.EstimatedLimit(), theirs.EstimatedLimit(); got < want-1 || got > want+1 {
			t.Fatalf("sample %d: ours %d, the library's %d", i, got, want)
		}
	}
}
