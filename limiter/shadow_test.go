package limiter_test

import (
	"testing"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Shadow mode says what enforcing would say: who is refused for want of a permit
// gets the tokens back there, so it must not lose them here, or the bucket runs
// dry and the wrong limiter is blamed.
func TestShadowRefundsLikeEnforce(t *testing.T) {
	for _, mode := range []limiter.Mode{limiter.Enforce, limiter.Shadow} {
		clock := &stoppedClock{}
		g := limiter.New("g", &limiter.Policy{
			Mode: mode, Rate: limiter.Rate{PerSecond: 10},
			Default: limiter.PartitionPolicy{Rate: limiter.Rate{PerSecond: 5}, NewLimit: newFixed(1)},
		}, limiter.Options{Clock: clock})
		for range 30 {
			p, err := g.TryAdmit(g.Now(), limiter.Request{})
			if err == nil {
				defer p.End(limiter.Ignored)
			}
		}
		counts := g.Status().Labels[0].Counts
		said := counts.Rejected
		if mode == limiter.Shadow {
			said = counts.WouldReject
		}
		if said[labels.ConcurrencyLimit] != 29 || said[labels.RequestRate] != 0 {
			t.Errorf("%v: %v; want 29 for want of a permit", mode, said)
		}
	}
}
