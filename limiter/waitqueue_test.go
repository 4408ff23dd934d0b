package limiter_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// queueing returns a policy of partitions with a limit and a queue each.
func queueing(total, limit, depth int, wait time.Duration) *limiter.Policy {
	return &limiter.Policy{Total: total, Default: limiter.PartitionPolicy{
		NewLimit: newFixed(limit), Signature: fmt.Sprint(limit), QueueDepth: depth, MaxWait: wait,
	}}
}

// A place of the total went to the partition that had just released one, as long
// as anyone waited there: of a noisy and a quiet tenant 4,003 and 0 requests
// were served. It goes round.
func TestTotalGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New("g", queueing(1, 5, 1000, 100*time.Millisecond), limiter.Options{})
		work := func(key string) error {
			p, err := g.Admit(t.Context(), limiter.Request{Key: key})
			if err == nil {
				time.Sleep(10 * time.Millisecond)
				p.End(limiter.Success)
			}
			return err
		}
		for range 500 {
			go work("noisy")
		}
		synctest.Wait()
		for i := range 10 {
			start := time.Now()
			if err := work("quiet"); err != nil || time.Since(start) > 30*time.Millisecond {
				t.Errorf("quiet request %d: %v after %v; want served after at most one of the noisy", i, err, time.Since(start))
			}
		}
		time.Sleep(time.Second)
	})
}

// Three partitions share a total equally while they all wait, however many each
// has waiting, and each serves its own in order.
func TestSharesOfTheTotalAreEqual(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", queueing(3, 3, 100, time.Hour), limiter.Options{Clock: clock})
	var held []limiter.Permit
	for range 3 {
		p, err := g.TryAdmit(0, limiter.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, p)
	}
	tickets := map[string][]*limiter.Ticket{}
	for key, n := range map[string]int{"a": 60, "b": 20, "c": 9} {
		for range n {
			_, ticket, err := g.Offer(0, limiter.Request{Key: key})
			if ticket == nil {
				t.Fatalf("%s does not wait: %v", key, err)
			}
			tickets[key] = append(tickets[key], ticket)
		}
	}
	served := map[string]int{}
	for range 27 {
		held[0].End(limiter.Success)
		held = held[1:]
		for key, waiting := range tickets {
			if len(waiting) == 0 {
				continue
			}
			if p, _, done, err := waiting[0].Step(0); done {
				if err != nil {
					t.Fatal(err)
				}
				held, tickets[key] = append(held, p), waiting[1:]
				served[key]++
			}
		}
	}
	if served["a"] != 9 || served["b"] != 9 || served["c"] != 9 {
		t.Errorf("served %v; want 9 of each", served)
	}
}

// A model of gates with a total, queues and limits that move: nobody waits
// beside a free place, none is given away that is not there, and in the end
// nothing is left behind.
func TestLineModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 4).Draw(t, "total")
		policy := queueing(total, 2, 3, time.Hour)
		policy.Default.Rate = limiter.Rate{PerSecond: 1000}
		clock := &stoppedClock{}
		g := limiter.New("g", policy, limiter.Options{Clock: clock})
		keys := rapid.SampledFrom([]string{"a", "b", "c"})
		var held []limiter.Permit
		var waiting []*limiter.Ticket
		step := func() {
			left := waiting[:0]
			for _, w := range waiting {
				p, _, done, err := w.Step(clock.Now())
				if err != nil {
					t.Fatalf("a ticket with an hour of time was refused: %v", err)
				}
				if done {
					held = append(held, p)
				} else {
					left = append(left, w)
				}
			}
			waiting = left
		}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				p, ticket, err := g.Offer(clock.Now(), limiter.Request{Key: keys.Draw(t, "key"), MaxWait: rapid.SampledFrom([]time.Duration{-1, 0}).Draw(t, "wait")})
				switch {
				case ticket != nil:
					waiting = append(waiting, ticket)
				case err == nil:
					held = append(held, p)
				}
			},
			"end": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip()
				}
				held[0].End(limiter.Success)
				held = held[1:]
			},
			"leave": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip()
				}
				held[len(held)-1].Leave()
			},
			"give up": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "who")
				waiting[i].Abandon()
				waiting = append(waiting[:i:i], waiting[i+1:]...)
			},
			"reload": func(t *rapid.T) {
				next := *policy
				next.Default.NewLimit = newFixed(rapid.IntRange(1, 3).Draw(t, "limit"))
				next.Default.Signature = fmt.Sprint(clock.now.Add(1))
				g.Apply(&next)
			},
			"": func(t *rapid.T) {
				step()
				s := g.Status()
				if s.InFlight != len(held) || s.Queued != len(waiting) {
					t.Fatalf("%d in flight, %d queued; the model has %d and %d", s.InFlight, s.Queued, len(held), len(waiting))
				}
				if total > 0 && s.InFlight > total {
					t.Fatalf("%d in flight; the total is %d", s.InFlight, total)
				}
				for _, p := range s.Partitions {
					room := p.InFlight < p.Limit && p.Abandoned <= max(p.Limit/2, 1) && (total == 0 || s.InFlight < total)
					if room && p.Queued > 0 {
						t.Fatalf("%s: %d wait beside a free place: %+v", p.Name, p.Queued, p)
					}
				}
			},
		})
		for _, w := range waiting {
			w.Abandon()
		}
		for i := range held {
			held[i].End(limiter.Ignored)
		}
		if s := g.Status(); s.InFlight != 0 || s.Queued != 0 {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

// Who waits goes on under the policy that a reload brings: in the partition that
// its key finds then, and without being refused where nobody is refused.
func TestReloadTakesTheWaitingAlong(t *testing.T) {
	waiting := func(t *testing.T) (*limiter.Gate, limiter.Permit, *limiter.Ticket) {
		t.Helper()
		g := limiter.New("g", queueing(0, 1, 5, time.Second), limiter.Options{Clock: &stoppedClock{}})
		p, _ := g.TryAdmit(0, limiter.Request{Key: "co-1"})
		_, ticket, err := g.Offer(0, limiter.Request{Key: "co-1"})
		if ticket == nil {
			t.Fatalf("does not wait: %v", err)
		}
		return g, p, ticket
	}
	t.Run("into another partition", func(t *testing.T) {
		g, old, ticket := waiting(t)
		policy := queueing(0, 1, 5, time.Second)
		policy.Named = []limiter.PartitionPolicy{{Name: "checkout", Match: "co*", NewLimit: newFixed(1), QueueDepth: 1}}
		g.Apply(policy)
		p, _, done, err := ticket.Step(0)
		if !done || err != nil || p.Partition() != "checkout" {
			t.Fatalf("Step = %q, %v, %v; want a permit of checkout, which is empty", p.Partition(), done, err)
		}
		if _, err := g.TryAdmit(0, limiter.Request{Key: "co-2"}); reason(t, err) != labels.ConcurrencyLimit {
			t.Errorf("another: %v; want that checkout is full", err)
		}
		old.End(limiter.Success)
		p.End(limiter.Success)
	})
	t.Run("into shadow mode", func(t *testing.T) {
		g, _, ticket := waiting(t)
		policy := queueing(0, 1, 5, time.Second)
		policy.Mode = limiter.Shadow
		g.Apply(policy)
		if _, _, done, err := ticket.Step(0); !done || err != nil {
			t.Errorf("Step = %v, %v; want a permit: shadow mode refuses nobody", done, err)
		}
	})
}

// slow is a limit that knows the latency without load.
type slow struct {
	fixed
	base time.Duration
}

func (s *slow) BaseRTT() time.Duration { return s.base }

// An automatic queue holds what chance brings and nobody longer than two
// latencies, nor past what was promised or the caller can wait.
func TestAutomaticQueue(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		limit     int64
		base      time.Duration
		objective time.Duration
		patience  time.Duration
		depth     int
		wait      time.Duration
	}{
		"a small limit":                    {1, 50 * ms, 0, 0, 4, 100 * ms},
		"a large limit":                    {100, 50 * ms, 0, 0, 20, 100 * ms},
		"not past the objective":           {1, 50 * ms, 80 * ms, 0, 4, 30 * ms},
		"no objective can be met":          {1, 50 * ms, 40 * ms, 0, 0, 0},
		"not past the caller's patience":   {1, 50 * ms, 0, 20 * ms, 4, 20 * ms},
		"short while nothing is known":     {1, 0, 0, 0, 4, 10 * ms},
		"not shorter than a timer is good": {1, 10 * time.Microsecond, 0, 0, 4, ms},
	} {
		t.Run(name, func(t *testing.T) {
			limit := &slow{base: tc.base}
			limit.n.Store(tc.limit)
			clock := &stoppedClock{}
			g := limiter.New("g", &limiter.Policy{Named: []limiter.PartitionPolicy{{
				Name: "a", NewLimit: func() limiter.Limit { return limit }, QueueAuto: true, Objective: tc.objective,
				QueueDepth: 1000, MaxWait: time.Hour, // not looked at
			}}}, limiter.Options{Clock: clock})
			for range tc.limit {
				g.TryAdmit(0, limiter.Request{Key: "a"})
			}
			var tickets []*limiter.Ticket
			for {
				_, ticket, err := g.Offer(0, limiter.Request{Key: "a", MaxWait: tc.patience})
				if err != nil {
					break
				}
				tickets = append(tickets, ticket)
			}
			if len(tickets) != tc.depth {
				t.Fatalf("%d wait; want %d", len(tickets), tc.depth)
			}
			for _, ticket := range tickets {
				if _, next, done, _ := ticket.Step(0); done || next != int64(tc.wait) {
					t.Fatalf("the wait ends at %v (%v); want %v", time.Duration(next), done, tc.wait)
				}
				if _, _, done, err := ticket.Step(int64(tc.wait)); !done || reason(t, err) != labels.QueueTimeout {
					t.Fatalf("at its end: %v, %v; want queue_timeout", done, err)
				}
			}
		})
	}
}

// Waiting is no latency: the limit hears of the time that the backend took.
func TestWaitingIsNoLatency(t *testing.T) {
	clock, limit := &stoppedClock{}, &recordingLimit{}
	limit.n.Store(1)
	g := limiter.New("g", &limiter.Policy{Named: []limiter.PartitionPolicy{{
		Name: "a", NewLimit: func() limiter.Limit { return limit }, QueueDepth: 1,
	}}}, limiter.Options{Clock: clock})
	first, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	_, ticket, _ := g.Offer(0, limiter.Request{Key: "a"})
	clock.now.Store(500)
	first.End(limiter.Success)
	second, _, _, _ := ticket.Step(500)
	clock.now.Store(507)
	second.End(limiter.Success)
	if len(limit.seen) != 2 || limit.seen[1] != 7 {
		t.Errorf("latencies %v; want 500 and 7", limit.seen)
	}
}

// A ticket says which limit let it wait in vain.
func TestLateNamesTheLimit(t *testing.T) {
	for want, total := range map[labels.Limit]int{labels.ByPartition: 0, labels.ByTotal: 1} {
		g := limiter.New("g", queueing(total, 1, 1, time.Second), limiter.Options{Clock: &stoppedClock{}})
		g.TryAdmit(0, limiter.Request{Key: "a"})
		key := "a"
		if total > 0 {
			key = "b"
		}
		_, ticket, _ := g.Offer(0, limiter.Request{Key: key})
		_, _, _, err := ticket.Step(int64(time.Second))
		if rej, ok := err.(*limiter.Rejection); !ok || rej.Reason != labels.QueueTimeout || rej.Limit != want { //nolint:errorlint // the gate returns it bare
			t.Errorf("refused with %v; want queue_timeout of the %s", err, want)
		}
	}
}

// A limit that was raised while a request waited left room in its partition, and
// the refusal named a total that nobody had configured.
func TestLateNeverNamesATotalThatIsNot(t *testing.T) {
	limit := &recordingLimit{}
	limit.n.Store(1)
	g := limiter.New("g", &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return limit }, QueueDepth: 1, MaxWait: time.Second,
	}}, limiter.Options{Clock: &stoppedClock{}})
	g.TryAdmit(0, limiter.Request{})
	_, ticket, _ := g.Offer(0, limiter.Request{})
	limit.n.Store(5)
	_, _, _, err := ticket.Step(int64(time.Second))
	if rej, ok := err.(*limiter.Rejection); !ok || rej.Limit != labels.ByPartition { //nolint:errorlint // the gate returns it bare
		t.Errorf("refused with %v; want queue_timeout of the partition", err)
	}
}

// waits is an observer that hears how long requests waited.
type waits struct{ heard []time.Duration }

func (w *waits) Recorder(string) limiter.Recorder     { return w }
func (w *waits) Ended(time.Duration, limiter.Outcome) {}
func (w *waits) Waited(d time.Duration)               { w.heard = append(w.heard, d) }

// The gate's own time is told apart from the backend's: how long each admitted
// request waited, for a permit or for its tokens.
func TestWaitsAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		policy limiter.Policy
		want   []time.Duration
	}{
		"a permit": {limiter.Policy{Default: limiter.PartitionPolicy{QueueDepth: 1, MaxWait: time.Second, NewLimit: func() limiter.Limit { return limitOfOne{} }}}, []time.Duration{300 * time.Millisecond}},
		"tokens":   {limiter.Policy{Rate: limiter.Rate{PerSecond: 2, BurstSeconds: .5, QueueDepth: 1}}, []time.Duration{500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &waits{}
				g := limiter.New("orders", &tc.policy, limiter.Options{Observer: w})
				first, err := g.Admit(t.Context(), limiter.Request{})
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(300*time.Millisecond, func() { first.End(limiter.Success) })
				second, err := g.Admit(t.Context(), limiter.Request{})
				if err != nil {
					t.Fatal(err)
				}
				second.End(limiter.Success)
				c := g.Status().Labels[0].Counts
				if !slices.Equal(w.heard, tc.want) || c.Waits != 1 || c.Waited != tc.want[0] {
					t.Errorf("heard %v, counted %d of %v; want %v", w.heard, c.Waits, c.Waited, tc.want)
				}
			})
		})
	}
}

// limitOfOne is a limit of one.
type limitOfOne struct{}

func (limitOfOne) Current() int                            { return 1 }
func (limitOfOne) Observe(int64, time.Duration, int, bool) {}
