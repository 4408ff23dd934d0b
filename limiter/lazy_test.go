package limiter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Admit may refuse without reading the clock, TryAdmit is told the time. Of two
// gates that see the same requests, one through each, both answer the same, for
// the same reason, and count the same.
func TestRefusingWithoutTheClockChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &stoppedClock{}
		clock.now.Store(rapid.Int64Range(0, 1<<40).Draw(t, "start"))
		policy := &limiter.Policy{
			Rate:  limiter.Rate{PerSecond: 4, BurstSeconds: 2},
			Total: rapid.IntRange(0, 3).Draw(t, "total"),
			Default: limiter.PartitionPolicy{
				NewLimit: newFixed(2), Rate: limiter.Rate{PerSecond: 3},
			},
		}
		lazy := limiter.New("g", policy, limiter.Options{Clock: clock})
		told := limiter.New("g", policy, limiter.Options{Clock: clock})
		var held [][2]limiter.Permit
		t.Repeat(map[string]func(*rapid.T){
			"pass time": func(t *rapid.T) {
				clock.now.Add(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "for"))
			},
			"admit": func(t *rapid.T) {
				req := limiter.Request{
					Key:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"),
					Cost:    rapid.SampledFrom([]float64{0, 0.5, 2, 4}).Draw(t, "cost"),
					Exempt:  rapid.IntRange(0, 9).Draw(t, "exempt") == 0,
					MaxWait: rapid.SampledFrom([]time.Duration{-1, 0, time.Second}).Draw(t, "wait"),
				}
				a, errA := lazy.Admit(t.Context(), req)
				b, errB := told.TryAdmit(clock.Now(), req)
				if why, want := whyNot(errA), whyNot(errB); why != want {
					t.Fatalf("Admit(%+v) refused with %q, TryAdmit with %q", req, why, want)
				}
				if errA == nil {
					held = append(held, [2]limiter.Permit{a, b})
				}
			},
			"end": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip()
				}
				outcome := limiter.Outcome(rapid.IntRange(0, 2).Draw(t, "outcome"))
				held[0][0].End(outcome)
				held[0][1].End(outcome)
				held = held[1:]
			},
			"": func(t *rapid.T) {
				if diff := cmp.Diff(told.Status(), lazy.Status()); diff != "" {
					t.Fatalf("the gates differ (-told +lazy):\n%s", diff)
				}
			},
		})
	})
}

// whyNot returns the reason of a refusal, "" for nil.
func whyNot(err error) labels.Reason {
	if rej, ok := err.(*limiter.Rejection); ok { //nolint:errorlint // the gate returns it bare
		return rej.Reason
	}
	return ""
}
