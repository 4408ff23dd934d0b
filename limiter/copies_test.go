package limiter_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// admit takes n permits one after the other.
func admit(t *testing.T, g *limiter.Gate, n int) []limiter.Permit {
	t.Helper()
	held := make([]limiter.Permit, n)
	for i := range held {
		var err error
		if held[i], err = g.TryAdmit(g.Now(), limiter.Request{}); err != nil {
			t.Fatalf("permit %d: %v", i, err)
		}
	}
	return held
}

// A permit that was copied and ended by both copies shut an idle gate for ever: it
// showed 1,048,575 in flight. It is counted, told once, and leaves nothing behind, in
// the partition and in what the partitions share; until the gate is idle one request
// more may be in flight, and never more than that for each copy.
func TestCopiesEndedTwice(t *testing.T) {
	double := func(held []limiter.Permit) {
		for _, p := range held { // a copy
			p.End(limiter.Success)
		}
	}
	for name, shape := range map[string]func(p *limiter.Policy){
		"partition": func(*limiter.Policy) {},
		"total":     func(p *limiter.Policy) { p.Total = 2 },
		"share":     func(p *limiter.Policy) { p.Shared = true },
	} {
		t.Run(name, func(t *testing.T) {
			policy := queueing(0, 2, 0, 0)
			shape(policy)
			var told []string
			g := limiter.New("jobs", policy, limiter.Options{EndedTwice: func(partition string) { told = append(told, partition) }})
			check := func(when string, want uint64) {
				t.Helper()
				st := g.Status()
				if st.InFlight != 0 || st.EndedTwice != want {
					t.Errorf("%s: %d in flight, %d ended twice; want 0, %d", when, st.InFlight, st.EndedTwice, want)
				}
				held := admit(t, g, 2)
				if _, err := g.TryAdmit(g.Now(), limiter.Request{}); reason(t, err) != labels.ConcurrencyLimit {
					t.Errorf("%s: a third of two: %v; want refused", when, err)
				}
				for i := range held {
					held[i].End(limiter.Success)
					held[i].End(limiter.Success) // the same one: harmless, and no copy
				}
			}
			check("before", 0)

			held := admit(t, g, 1)
			double(held)
			double(held)
			check("idle", 1)

			held = admit(t, g, 2)
			double(held[:1])
			double(held[:1])
			more := admit(t, g, 2) // one more than there are
			if _, err := g.TryAdmit(g.Now(), limiter.Request{}); err == nil {
				t.Error("busy: two more than there are")
			}
			double(held[1:])
			double(more)
			check("busy", 2)

			held = admit(t, g, 1)
			held[0].Leave()
			double(held)
			double(held)
			check("left", 3)
			if n := g.Status().Labels[0].Abandoned; n != 0 {
				t.Errorf("%d abandoned; want none", n)
			}
			if !slices.Equal(told, []string{limiter.DefaultPartition}) {
				t.Errorf("told of %q; want once", told)
			}
		})
	}
}

// The same of many copies at once.
func TestCopiesEndedTwiceConcurrently(t *testing.T) {
	g := limiter.New("jobs", queueing(50, 50, 0, 0), limiter.Options{EndedTwice: func(string) {}})
	const rounds = 200
	for range rounds {
		held := admit(t, g, 1)
		var wg sync.WaitGroup
		for range 2 {
			p := held[0]
			wg.Go(func() { p.End(limiter.Success) })
		}
		wg.Wait()
	}
	if st := g.Status(); st.InFlight != 0 || st.EndedTwice != rounds {
		t.Errorf("%d in flight, %d ended twice; want 0, %d", st.InFlight, st.EndedTwice, rounds)
	}
	held := admit(t, g, 50)
	for i := range held {
		held[i].End(limiter.Ignored)
	}
}
