package limiter_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/limiter"
)

// However many keys there are, in whatever order they come, and whether the
// table is replaced meanwhile, a key finds the partition it found first and
// never another's.
func TestKeysFindTheirOwnPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,4}`), 300, 900, rapid.ID[string]).Draw(t, "keys")
		policy := &limiter.Policy{
			MaxPartitions: 1000,
			Default:       limiter.PartitionPolicy{NewLimit: newFixed(1000)},
			Named:         []limiter.PartitionPolicy{{Name: "GOLD", Match: keys[0]}},
		}
		g := limiter.New("g", policy, limiter.Options{})
		for range 2 {
			for _, key := range keys {
				permit, err := g.TryAdmit(g.Now(), limiter.Request{Key: key})
				if err != nil {
					t.Fatalf("%q: %v", key, err)
				}
				want := key
				if key == keys[0] {
					want = "GOLD"
				}
				if got := permit.Partition(); got != want {
					t.Fatalf("%q found the partition %q", key, got)
				}
			}
			g.Apply(policy)
		}
		for _, p := range g.Status().Partitions {
			if p.Name != limiter.DefaultPartition && p.Name != limiter.OverflowPartition && p.InFlight != 2 {
				t.Errorf("%s holds %d permits; want 2", p.Name, p.InFlight)
			}
		}
	})
}
