package limiter_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/labels"
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
				for v := range g.Briefs() {
					if v.Name != "a" {
						continue
					}
					want := limiter.Brief{
						Name: "a", Key: true, Number: 2, Limit: 20, InFlight: 1, Admitted: 5, Succeeded: 2, Dropped: 1, Busy: 2 * 694 * time.Millisecond,
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

// A form for one key holds for its partition alone, whether it exists already or
// comes later, and what the partition counted stays. A blocked one refuses
// everything, and says that it is a rate.
func TestKeysHaveTheirOwnForm(t *testing.T) {
	limit := func(n int) func() limiter.Limit { return func() limiter.Limit { return constant(n) } }
	base := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: limit(5), Signature: "5"}}
	g := limiter.New("orders", &base, limiter.Options{})
	admitAndEnd := func(key string) error {
		p, err := g.Admit(t.Context(), limiter.Request{Key: key})
		p.End(limiter.Success)
		return err
	}
	if err := admitAndEnd("a"); err != nil {
		t.Fatal(err)
	}
	over := base
	over.Keys = map[string]*limiter.PartitionPolicy{
		"a":     {NewLimit: limit(9), Signature: "9"},
		"later": {NewLimit: limit(7), Signature: "7", Blocked: true},
	}
	g.Apply(&over)
	err := admitAndEnd("later")
	rejection, ok := errors.AsType[*limiter.Rejection](err)
	if !ok || rejection.Reason != labels.RequestRate || rejection.Limit != labels.ByPartition {
		t.Errorf("blocked: %v; want a refusal by the partition's rate", err)
	}
	if h := rejection.Hint(limiter.Request{Key: "later"}); h.RetryAfter < 0 {
		t.Errorf("blocked: hint %+v", h)
	}
	if err := admitAndEnd("b"); err != nil {
		t.Errorf("another key: %v", err)
	}
	limits := func() map[string]int {
		out := map[string]int{}
		for v := range g.Briefs() {
			if v.Key {
				out[v.Name] = v.Limit
			}
			if v.Name == "a" && v.Admitted != 1 {
				t.Errorf("a admitted %d, want 1: its partition goes on", v.Admitted)
			}
		}
		return out
	}
	if d := cmp.Diff(map[string]int{"a": 9, "b": 5, "later": 7}, limits()); d != "" {
		t.Errorf("limits (-want +got):\n%s", d)
	}
	g.Apply(&base)
	if d := cmp.Diff(map[string]int{"a": 5, "b": 5, "later": 5}, limits()); d != "" {
		t.Errorf("taken back (-want +got):\n%s", d)
	}
	if err := admitAndEnd("later"); err != nil {
		t.Errorf("unblocked: %v", err)
	}
}

// constant is a limit that stays.
type constant int

func (c constant) Current() int                          { return int(c) }
func (constant) Observe(int64, time.Duration, int, bool) {}
