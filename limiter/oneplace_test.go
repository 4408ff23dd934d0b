package limiter_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/admitd/admitd/limiter"
)

// A limiter that looks whether there is room and then takes it, in two steps,
// lets two in where there is one place (published against the reference Java
// library, for a partition's limit and for the total). Callers that meet once,
// or that hold many places, hardly ever meet in between: these do nothing else.
func TestOnePlaceIsForOne(t *testing.T) {
	for name, policy := range map[string]*limiter.Policy{
		"of a partition": {Default: limiter.PartitionPolicy{NewLimit: newFixed(1)}},
		"of the total":   {Total: 1, Default: limiter.PartitionPolicy{NewLimit: newFixed(100)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := limiter.New("g", policy, limiter.Options{})
			var inside, worst, granted atomic.Int64
			var wg sync.WaitGroup
			for w := range 8 {
				req := limiter.Request{MaxWait: -1}
				if policy.Total > 0 {
					req.Key = string(rune('a' + w%2))
				}
				wg.Go(func() {
					for range 200_000 {
						permit, _, err := g.Offer(g.Now(), req)
						if err != nil {
							continue
						}
						inside.Add(1)
						for range 50 { // who got in a moment later is seen
							raise(&worst, inside.Load())
						}
						granted.Add(1)
						inside.Add(-1)
						permit.End(limiter.Success)
					}
				})
			}
			wg.Wait()
			if worst.Load() != 1 || granted.Load() == 0 {
				t.Errorf("%d callers were in one place at once, of %d", worst.Load(), granted.Load())
			}
		})
	}
}
