package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/limiter"
)

// The latency is measured in every mode. With the gate off it used to stand
// still: 34 ms were shown where the backend took 694, at the very moment when
// one asks whether the gate is the culprit.
func TestBusyInEveryMode(t *testing.T) {
	for _, mode := range []limiter.Mode{limiter.Enforce, limiter.Shadow, limiter.Off} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := limiter.New("orders", &limiter.Policy{Mode: mode}, limiter.Options{})
				for _, o := range []limiter.Outcome{limiter.Success, limiter.Success, limiter.Dropped, limiter.Ignored} {
					p, err := g.Admit(t.Context(), limiter.Request{Key: "a"})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(694 * time.Millisecond)
					p.End(o)
				}
				held, err := g.Admit(t.Context(), limiter.Request{Key: "a"})
				if err != nil {
					t.Fatal(err)
				}
				defer held.End(limiter.Ignored)
				for v := range g.Glances() {
					if v.Name != "a" {
						continue
					}
					want := limiter.Glance{
						Name: "a", Key: true, Limit: 20, InFlight: 1, Admitted: 5, Succeeded: 2, Dropped: 1, Busy: 2 * 694 * time.Millisecond,
					}
					if d := cmp.Diff(want, v); d != "" {
						t.Errorf("glance (-want +got):\n%s", d)
					}
				}
				s := g.Status()
				for _, p := range s.Partitions {
					if p.Name == "a" && (p.Counts.Busy != 2*694*time.Millisecond || p.Counts.Succeeded(p.InFlight) != 2) {
						t.Errorf("busy %v for %d, want 1.388s for 2", p.Counts.Busy, p.Counts.Succeeded(p.InFlight))
					}
				}
			})
		})
	}
}
