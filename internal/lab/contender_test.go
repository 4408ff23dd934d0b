package lab_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// caller is an entrant that keeps what it is given and told.
type caller struct {
	permits []lab.Permit
	told    []labels.Document
}

func (c *caller) Admitted(p lab.Permit)   { c.permits = append(c.permits, p) }
func (c *caller) Refused(why lab.Refusal) { c.told = append(c.told, why()) }

// inWorld plays the smallest scenario, and f in it, once, when the first request comes.
func inWorld(t *testing.T, more string, f func(s *scenario.Scenario, w *lab.World)) {
	t.Helper()
	s := onlyVariant(t, smallest+more)
	began := false
	c := watched(func(w *lab.World, _ lab.Request) {
		if !began {
			began = true
			f(s, w)
		}
	})
	if _, err := lab.Play(s, c, 1, lab.PlayOptions{}); err != nil {
		t.Fatal(err)
	}
	if !began {
		t.Fatal("no request came")
	}
}

// A gate of the lab refuses as one does behind sockets: with the document that tells
// the client why, and when to come back.
func TestRefusalsAreTold(t *testing.T) {
	inWorld(t, "", func(s *scenario.Scenario, w *lab.World) {
		door, c := lab.Fixed(s, "fixed", 1).New(w), &caller{}
		if door.Limit() != 0 {
			t.Errorf("nobody was admitted, and the limit is %d; want it left out", door.Limit())
		}
		for range 3 {
			if withdraw := door.Enter(lab.Request{Cost: 1}, c); withdraw != nil {
				t.Error("a request waits in a gate without a queue")
			}
		}
		if len(c.permits) != 1 || len(c.told) != 2 || door.Limit() != 1 {
			t.Fatalf("%d admitted, %d refused under a limit of %d; want 1 and 2 under 1", len(c.permits), len(c.told), door.Limit())
		}
		for _, doc := range c.told {
			if doc.Reason != labels.ConcurrencyLimit || doc.Partition != "default" || len(doc.ErrorLabels) != 2 || doc.BaseBackoffMS <= 0 {
				t.Errorf("the client is told %+v", doc)
			}
		}
		c.permits[0].End(limiter.Success)
		if door.Enter(lab.Request{Cost: 1}, c); len(c.permits) != 2 {
			t.Error("a permit that was given back is not given again")
		}
	})
}

// A gate with a queue takes in who waits, lets in who is next when a permit comes back,
// sends off who waited for too long, and forgets who left.
func TestQueueOfADoor(t *testing.T) {
	inWorld(t, "", func(_ *scenario.Scenario, w *lab.World) {
		door := lab.Gated("queued", func(*lab.World) *limiter.Policy {
			return &limiter.Policy{Default: limiter.PartitionPolicy{QueueDepth: 2, MaxWait: 300 * time.Millisecond, NewLimit: func() limiter.Limit {
				l, err := algorithms.New(algorithms.Settings{Keys: algorithms.Keys{Limit: 1}})
				if err != nil {
					t.Error(err)
				}
				return l
			}}}
		}).New(w)
		var inside, next, late, gone, beyond caller
		door.Enter(lab.Request{Cost: 1}, &inside)
		leave := door.Enter(lab.Request{Cost: 1}, &gone)
		door.Enter(lab.Request{Cost: 1}, &next)
		door.Enter(lab.Request{Cost: 1}, &beyond)
		if leave == nil || len(beyond.told) != 1 || beyond.told[0].Reason != labels.ConcurrencyLimit {
			t.Fatalf("the queue of two holds three: %+v", beyond)
		}
		leave()
		door.Enter(lab.Request{Cost: 1}, &late) // in the place of who left
		w.After(100*time.Millisecond, func() { inside.permits[0].End(limiter.Success) })
		w.After(200*time.Millisecond, func() {
			if len(next.permits) != 1 || len(late.permits)+len(late.told) != 0 {
				t.Errorf("after a permit came back the next is %+v, the one behind %+v", next, late)
			}
		})
		w.After(301*time.Millisecond, func() {
			if len(late.told) != 1 || late.told[0].Reason != labels.QueueTimeout {
				t.Errorf("who waited for 300 ms is told %+v", late.told)
			}
		})
		w.After(time.Second, func() {
			if len(gone.permits)+len(gone.told) != 0 {
				t.Errorf("who left was called back: %+v", gone)
			}
		})
	})
}
