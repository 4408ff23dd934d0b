package shadow_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/shadow"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// fixed is a policy of so many permits.
func fixed(n int) func() *limiter.Policy {
	return func() *limiter.Policy {
		return &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return algorithms.NewFixed(algorithms.FixedOptions{Limit: n}) }, Signature: fmt.Sprint(n),
		}}
	}
}

// queued adds a queue to a policy.
func queued(p func() *limiter.Policy, depth int, wait time.Duration) func() *limiter.Policy {
	return func() *limiter.Policy {
		q := p()
		q.Default.QueueDepth, q.Default.MaxWait = depth, wait
		return q
	}
}

// of is a policy of an algorithm as it ships.
func of(kind string, auto bool) func() *limiter.Policy {
	return func() *limiter.Policy {
		settings := algorithms.Settings{Algorithm: kind}
		return &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit {
				l, err := algorithms.New(settings)
				if err != nil {
					panic(err)
				}
				return l
			},
			Signature: kind, QueueAuto: auto,
		}}
	}
}

// overload is 8 workers of 10 ms, first with room and then with twice as much
// as they can serve. Nobody retries.
func overload(t *testing.T) *scenario.Scenario {
	t.Helper()
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s *scenario.Scenario) bool { return s.Name == "steady" })
	s, ok := list[i].Variant("1x")
	if !ok {
		t.Fatal("scenario steady has no variant 1x")
	}
	s.For = scenario.Duration(90 * time.Second)
	s.Load = []scenario.LoadStep{{Load: 0.5}, {At: scenario.Duration(10 * time.Second), Load: 2}}
	s.Windows = []scenario.Window{{Name: "all", To: s.For}}
	return s
}

// play plays a policy with candidates beside it; seed is that of the traffic and
// of the backend.
func play(t *testing.T, s *scenario.Scenario, seed uint64, enforced func() *limiter.Policy, list ...shadow.Candidate) (*measure.Window, []status.Candidate) {
	t.Helper()
	var stage *shadow.Stage
	contender := lab.Gated("enforced", func(w *lab.World) *limiter.Policy {
		p := enforced()
		if len(list) > 0 {
			stage = shadow.New(shadow.Options{Rand: w.Rand, Objective: 100 * time.Millisecond})
			stage.Apply(shadow.Options{Rand: w.Rand, Objective: 100 * time.Millisecond}, list)
			p.Witness = stage
			var settle func()
			settle = func() {
				stage.Settle()
				w.After(5*time.Millisecond, settle)
			}
			settle()
		}
		return p
	})
	r, err := lab.Play(s, contender, seed, lab.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stage == nil {
		return &r.Windows[0], nil
	}
	return &r.Windows[0], stage.Reports("orders")
}

// What a candidate is said to refuse is what it refuses once it is promoted:
// within two points nine times in ten, whether it is narrower or wider than what is enforced, and
// whether it refuses at once, by a rate, or after a wait. The traffic after the
// promotion is other than that of the prediction, and nothing was tuned on either.
func TestPredictionHoldsAfterPromotion(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 48 worlds, each in one goroutine")
	}
	candidates := map[string]func() *limiter.Policy{
		"narrow": fixed(4), "fitting": fixed(9), "wide": fixed(30), "queue": queued(fixed(9), 10, 15*time.Millisecond),
		"vegas": of("vegas", false), "knee": of("knee", true), "gradient2": of("gradient2", false),
		"rate": func() *limiter.Policy {
			p := fixed(1000)()
			p.Rate = limiter.Rate{PerSecond: 600, BurstSeconds: 0.05}
			return p
		},
	}
	all, far := 0, 0
	for _, enforced := range []string{"fitting", "wide", "knee"} {
		for name, candidate := range candidates {
			t.Run(name+" beside "+enforced, func(t *testing.T) {
				s := overload(t)
				_, reports := play(t, s, 101, candidates[enforced], shadow.Candidate{Name: name, Policy: candidate()})
				actual, _ := play(t, s, 202, candidate)
				r := &reports[0]
				got, want := r.RejectedShare, float64(actual.Refused)/float64(actual.Offered)
				t.Logf("predicted %.2f %% refused, p99 %.1f ms (beyond %.0f %%, for nothing %.0f %%); then %.2f %%, p99 %.1f ms",
					100*got, r.P99MS, 100*r.BeyondShare, 100*r.ForNothingShare, 100*want, 1000*actual.P99)
				all++
				if math.Abs(got-want) > 0.02 {
					far++
				}
				if math.Abs(got-want) > 0.045 {
					t.Errorf("%.2f %% were predicted to be refused; it was %.2f %%", 100*got, 100*want)
				}
			})
		}
	}
	if 10*far > all {
		t.Errorf("%d of %d predictions were more than two points off; want at most one in ten", far, all)
	}
}
