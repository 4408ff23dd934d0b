package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// learner is a limit that knows what it was told.
type learner struct{ base *time.Duration }

func (learner) Current() int                            { return 5 }
func (learner) Observe(int64, time.Duration, int, bool) {}

func (l learner) Recall(base time.Duration) { *l.base = base }
func (l learner) BaseRTT() time.Duration    { return *l.base }
func (learner) Algorithm() string           { return "learner" }

// A limit that is made knows what was learned before: in an earlier life of the
// process by its name, whether it stands for a key or not, and by the limit that a
// change of the configuration replaces, which under overload would else have been
// forgotten just when it counts.
func TestRecall(t *testing.T) {
	policy := func(signature string) *limiter.Policy {
		p := limiter.PartitionPolicy{Signature: signature, NewLimit: func() limiter.Limit { return learner{new(time.Duration)} }}
		named := p
		named.Name = "gold"
		return &limiter.Policy{Default: p, Named: []limiter.PartitionPolicy{named}}
	}
	asked := map[string]int{}
	g := limiter.New("orders", policy("a"), limiter.Options{Recall: func(name string, key bool, algorithm string) time.Duration {
		if algorithm != "learner" {
			t.Errorf("asked for what %q learned", algorithm)
		}
		asked[fmt.Sprint(name, key)]++
		return map[string]time.Duration{"goldfalse": 3e6, "t-1true": 7e6, "goldtrue": 11e6}[fmt.Sprint(name, key)]
	}})
	p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "t-1"})
	if err != nil {
		t.Fatal(err)
	}
	p.End(limiter.Ignored)
	bases := func() map[string]time.Duration {
		out := map[string]time.Duration{}
		for _, p := range g.Status().Partitions {
			out[p.Name] = p.BaseRTT
		}
		return out
	}
	for _, change := range []string{"a", "b"} {
		g.Apply(policy(change))
		if got := bases(); got["gold"] != 3*time.Millisecond || got["t-1"] != 7*time.Millisecond || got["default"] != 0 {
			t.Errorf("with limits %q the bases are %v; want gold 3 ms, t-1 7 ms, default unknown", change, got)
		}
	}
	if asked["goldfalse"] != 1 || asked["t-1true"] != 1 {
		t.Errorf("asked %v; want once for each that nobody had learned", asked)
	}
}
