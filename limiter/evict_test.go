package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// outcomes are what callers know to have become of their requests.
type outcomes struct{ admitted, refused, dropped, ignored, left atomic.Uint64 }

// ask is one request of a key, which the caller ends in one way or the other.
func (o *outcomes) ask(g *limiter.Gate, rng *rand.Rand, key string) {
	p, err := g.TryAdmit(g.Now(), limiter.Request{Key: key})
	if err != nil {
		o.refused.Add(1)
		return
	}
	o.admitted.Add(1)
	runtime.Gosched()
	if rng.IntN(2) == 0 {
		o.ask(g, rng, key) // meanwhile; the third one finds no permit
	}
	if rng.IntN(4) == 0 {
		o.left.Add(1)
		p.Leave()
	}
	switch rng.IntN(4) {
	case 0:
		o.dropped.Add(1)
		p.End(limiter.Dropped)
	case 1:
		o.ignored.Add(1)
		p.End(limiter.Ignored)
	default:
		p.End(limiter.Success)
	}
}

// sumOf adds the counts of a status up.
func sumOf(s *limiter.Status) (sum [6]uint64) {
	for i := range s.Labels {
		c := &s.Labels[i].Counts
		for j, n := range [...]uint64{c.Admitted, c.Rejected[labels.ConcurrencyLimit], c.Dropped, c.Ignored, c.Abandoned, c.Wasted} {
			sum[j] += n
		}
	}
	return sum
}

// Whatever partitions come and go for, with requests under way and policies applied,
// every request is counted once for ever, no sum falls meanwhile, and no two that are
// there at once have one number.
func TestCountsOutliveTheirPartitions(t *testing.T) {
	const most, keys, workers, rounds, asked = 16, 64, 4, 30, 100
	var policies [2]*limiter.Policy
	for i := range policies {
		policies[i] = &limiter.Policy{MaxPartitions: most - 4*i, Default: limiter.PartitionPolicy{NewLimit: newFixed(2), Signature: "2"}}
	}
	policies[1].Named = []limiter.PartitionPolicy{{Name: "gold"}}
	clock := &stoppedClock{}
	g := limiter.New("g", policies[0], limiter.Options{Clock: clock})
	var (
		told   outcomes
		before [6]uint64
		known  = map[string]bool{}
	)
	look := func() {
		s := g.Status()
		sum := sumOf(&s)
		for i := range sum {
			if sum[i] < before[i] {
				t.Errorf("sums fell from %d to %d", before, sum)
			}
		}
		before = sum
		numbers := map[int]string{}
		for v := range g.Briefs() {
			if other, twice := numbers[v.Number]; twice || v.Number >= most+3 {
				t.Errorf("%s has number %d, as %q; want one of the first %d", v.Name, v.Number, other, most+3)
			}
			numbers[v.Number], known[v.Name] = v.Name, true
		}
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				for i := range asked {
					if w == 0 && i%30 == 29 {
						clock.now.Add(int64(1200 * time.Millisecond)) // the next one may evict
						g.Apply(policies[rng.IntN(2)])
					}
					told.ask(g, rng, fmt.Sprint("k", (round*8+rng.IntN(20))%keys))
				}
			})
		}
		for range 5 {
			look()
			runtime.Gosched()
		}
		wg.Wait()
		look()
		want := [...]uint64{told.admitted.Load(), told.refused.Load(), told.dropped.Load(), told.ignored.Load(), told.left.Load(), told.left.Load()}
		if s := g.Status(); before != want || s.InFlight != 0 {
			t.Fatalf("round %d counts %d with %d in flight, want %d with none", round, before, s.InFlight, want)
		}
		clock.now.Add(int64(12 * time.Second)) // all are idle by now
	}
	if len(known) < keys || told.refused.Load() == 0 {
		t.Errorf("%d of %d keys had a partition for a time, %d requests were refused", len(known), keys, told.refused.Load())
	}
}
