package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/limiter"
)

// witness notes what it is told.
type witness struct {
	name string
	told *[]string
}

func (w witness) note(format string, args ...any) {
	*w.told = append(*w.told, w.name+": "+fmt.Sprintf(format, args...))
}

// Decided implements [limiter.Witness].
func (w witness) Decided(now int64, req limiter.Request, v limiter.Verdict) {
	w.note("%d decided %s %d", now, req.Key, v)
}

// Waited implements [limiter.Witness].
func (w witness) Waited(offered, now int64, v limiter.Verdict) {
	w.note("%d waited since %d, %d", now, offered, v)
}

// Ended implements [limiter.Witness].
func (w witness) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	w.note("%d ended, began %d, %v %v", now, start, latency, o)
}

// A witness hears of every request once, and of waits by the moment at which
// they began, a refusal by the policy it waited under; a permit is told to the
// witness of the policy that granted it,
// whatever is in force by then.
func TestWitnessHearsEveryRequest(t *testing.T) {
	var told []string
	clock := stopped(10)
	policy := func(w limiter.Witness) *limiter.Policy {
		return &limiter.Policy{Witness: w, Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return one{} }, Signature: "1", QueueDepth: 2, MaxWait: 20,
		}}
	}
	g := limiter.New("x", policy(witness{"a", &told}), limiter.Options{Clock: &clock})
	first, _, _ := g.Offer(10, limiter.Request{Key: "k"})
	_, second, _ := g.Offer(11, limiter.Request{Key: "k"})
	_, third, _ := g.Offer(12, limiter.Request{Key: "k"})
	_, _, err := g.Offer(13, limiter.Request{Key: "k"})
	if second == nil || third == nil || err == nil {
		t.Fatalf("offers: %v, %v, %v; want two to wait and one to be refused", second, third, err)
	}
	g.Apply(policy(witness{"b", &told}))
	clock = 20
	first.End(limiter.Success)
	permit, _, done, err := second.Step(21)
	if !done || err != nil {
		t.Fatalf("the first who waited: %v, %v; want a permit", done, err)
	}
	clock = 40
	if _, _, done, err := third.Step(40); !done || err == nil {
		t.Fatalf("the second who waited: %v, %v; want a refusal", done, err)
	}
	g.Apply(policy(nil))
	clock = 50
	permit.End(limiter.Dropped)
	want := []string{
		"a: 10 decided k 2", "a: 11 decided k 1", "a: 12 decided k 1", "a: 13 decided k 0",
		"a: 20 ended, began 10, 10ns success", "b: 20 waited since 11, 2", "a: 40 waited since 12, 0",
		"b: 50 ended, began 20, 30ns dropped",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("the witnesses heard (-want +got):\n%s", diff)
	}
}

// listener keeps the last request that it is told of.
type listener struct {
	witness

	last limiter.Request
}

// Decided implements [limiter.Witness].
func (l *listener) Decided(_ int64, req limiter.Request, _ limiter.Verdict) { l.last = req }

// A witness is told what a request cost, and not of its shape: candidates that
// played it wrote their guesses into what the gate itself had learned of the
// shape, and changed the price of true requests.
func TestWitnessHearsOfPricesNotOfShapes(t *testing.T) {
	clock := &stoppedClock{}
	l := &listener{witness: witness{"a", new([]string)}}
	g := limiter.New("g", &limiter.Policy{Shapes: 10, Witness: l}, limiter.Options{Clock: clock})
	cheap, dear := g.Shape(1, func() string { return "cheap" }), g.Shape(2, func() string { return "dear" })
	for range 20 {
		for shape, hold := range map[*limiter.Shape]time.Duration{cheap: time.Millisecond, dear: 9 * time.Millisecond} {
			p, err := g.TryAdmit(clock.Now(), limiter.Request{Shape: shape})
			if err != nil {
				t.Fatal(err)
			}
			clock.now.Add(int64(hold))
			p.End(limiter.Success)
		}
	}
	if _, err := g.TryAdmit(clock.Now(), limiter.Request{Shape: dear}); err != nil {
		t.Fatal(err)
	}
	if l.last.Shape != nil || l.last.Cost < 1.7 || l.last.Cost > 1.9 {
		t.Errorf("told of a cost of %v and shape %v; want 1.8 of the mean, and none", l.last.Cost, l.last.Shape)
	}
}
