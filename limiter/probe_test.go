package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// outage plays requests, one every 10 ms, before a backend that hangs for a while:
// what it was given then it never answers, and gives up after timeout.
type outage struct {
	policy  limiter.Policy
	keys    int
	queue   bool                               // requests may wait for a permit
	leave   time.Duration                      // after which callers do; 0 = never
	calm    time.Duration                      // before the backend hangs
	lasts   time.Duration                      // how long it hangs
	timeout time.Duration                      // of what hangs
	after   time.Duration                      // how long it is played on
	takes   func(at, n int) (d time.Duration)  // instead of hanging: how long request n takes that was admitted at ms at; 0 = it hangs
	seen    func(t *testing.T, at, inside int) // told of each millisecond in which there was something, if not nil
}

// playedOut is what came of an outage.
type playedOut struct {
	back    time.Duration // from the backend's return to the first answer of what was admitted after it; -1 = never
	full    time.Duration // to as many answers a second as before
	worst   int           // at the backend at once, while it hung
	later   int           // the same after its return
	leftFor int           // in flight at the end
}

const served = 20 * time.Millisecond

type atWork struct {
	permit   *limiter.Permit
	from, to int // ms
	hung     bool
	left     bool
}

func (o *outage) play(t *testing.T) (r playedOut) {
	t.Helper()
	if o.calm == 0 {
		o.calm = 5 * time.Second
	}
	if o.timeout == 0 {
		o.timeout = 30 * time.Second
	}
	if o.after == 0 {
		o.after = 10*time.Second + o.lasts/2
	}
	clock := &tickingClock{}
	o.policy.Probe = true
	g := limiter.New("orders", &o.policy, limiter.Options{Clock: clock})
	begins, returns := int(o.calm.Milliseconds()), int((o.calm + o.lasts).Milliseconds())
	until := returns + int(o.after.Milliseconds())
	var works []*atWork
	var waits []*limiter.Ticket
	n, answered := 0, 0
	second := map[int]int{}
	r.back, r.full = -1, -1
	take := func(at int, permit *limiter.Permit) {
		w := &atWork{permit: permit, from: at, to: at + int(served.Milliseconds())}
		d := served
		switch {
		case o.takes != nil:
			d = o.takes(at, n)
		case at >= begins && at < returns:
			d = 0
		}
		if w.to = at + int(d.Milliseconds()); d == 0 {
			w.hung, w.to = true, at+int(o.timeout.Milliseconds())
		}
		n++
		works = append(works, w)
	}
	for at := 0; at < until; at++ {
		clock.now.Store(int64(at+1) * int64(time.Millisecond))
		now := clock.Now()
		kept := works[:0]
		for _, w := range works {
			if o.leave > 0 && !w.left && at-w.from >= int(o.leave.Milliseconds()) {
				w.left = true
				w.permit.Leave()
			}
			switch {
			case at < w.to:
				kept = append(kept, w)
			case w.hung:
				w.permit.End(limiter.Dropped)
			default:
				w.permit.End(limiter.Success)
				answered++
				second[at/1000]++
				if at >= returns && w.from >= begins && r.back < 0 {
					r.back = time.Duration(at-returns) * time.Millisecond
				}
				if at >= returns && r.full < 0 && second[at/1000] > 90 {
					r.full = time.Duration(at-returns) * time.Millisecond
				}
			}
		}
		works = kept
		waiting := waits[:0]
		for _, ticket := range waits {
			switch permit, _, done, err := ticket.Step(now); {
			case !done:
				waiting = append(waiting, ticket)
			case err == nil:
				take(at, &permit)
			}
		}
		waits = waiting
		if at%10 == 0 {
			req := limiter.Request{Key: fmt.Sprint("tenant-", at/10%max(o.keys, 1))}
			if !o.queue {
				req.MaxWait = limiter.NoWait
			}
			switch permit, ticket, err := g.Offer(now, req); {
			case ticket != nil:
				waits = append(waits, ticket)
			case err == nil:
				take(at, &permit)
			}
		}
		switch {
		case at >= returns:
			r.later = max(r.later, len(works))
		case at >= begins:
			r.worst = max(r.worst, len(works))
		}
		if o.seen != nil {
			o.seen(t, at, len(works))
		}
	}
	for _, w := range works {
		w.permit.End(limiter.Ignored)
	}
	for _, ticket := range waits {
		ticket.Abandon()
	}
	if left := limiter.Leftovers(o.backend(g), g); left != "" {
		t.Errorf("after all ended there are left:%s", left)
	}
	if in := g.Status().InFlight; in != 0 {
		t.Errorf("after all ended %d are in flight", in)
	}
	return r
}

func (o *outage) backend(*limiter.Gate) *limiter.Backend {
	if o.policy.Backend == nil {
		return &limiter.Backend{}
	}
	return o.policy.Backend
}

// tickingClock stands still but for a nanosecond a reading: no two are the same.
type tickingClock struct{ stoppedClock }

func (c *tickingClock) Now() int64 { return c.now.Add(1) }

// collapsing is a limit that falls to 1 at the first drop, and grows by one with each
// success.
type collapsing struct{ n atomic.Int64 }

func newCollapsing(n int64) func() limiter.Limit {
	return func() limiter.Limit {
		c := &collapsing{}
		c.n.Store(n)
		return c
	}
}
func (c *collapsing) Current() int { return int(c.n.Load()) }
func (c *collapsing) Observe(_ int64, _ time.Duration, _ int, dropped bool) {
	if dropped {
		c.n.Store(1)
	} else {
		c.n.Store(min(c.n.Load()+1, 20))
	}
}

// A backend that hung for 45 s and was back was refused to everybody for 15 s more:
// the permits of what hung stood until the timeout, while it was idle. Now it is found
// within moments, whatever limit the permits are of, and no more was given to it than is
// said.
func TestABackendThatIsBackIsFound(t *testing.T) {
	common := func(n int) limiter.Policy {
		return limiter.Policy{Backend: &limiter.Backend{}, Common: &limiter.CommonLimit{NewLimit: newFixed(n), Signature: "c"}}
	}
	bounded := common(20)
	bounded.Default.MaxInFlight = 10
	auto := common(20)
	auto.Default.QueueAuto = true
	waiting := common(20)
	waiting.Default.QueueDepth, waiting.Default.MaxWait = 10, 10*time.Second
	own := limiter.PartitionPolicy{NewLimit: newFixed(20), Signature: "f"}
	ownQueue := own
	ownQueue.QueueDepth, ownQueue.MaxWait = 10, 10*time.Second
	small := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(4), Signature: "f"}}
	for name, tc := range map[string]struct {
		outage
		n int // permits
	}{
		"a limit":                        {outage{policy: limiter.Policy{Default: own}}, 20},
		"a limit with a queue":           {outage{policy: limiter.Policy{Default: ownQueue}, queue: true}, 20},
		"callers that leave":             {outage{policy: limiter.Policy{Default: own}, leave: 2 * time.Second}, 20},
		"a limit that falls":             {outage{policy: limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newCollapsing(20), Signature: "c"}}}, 20},
		"one limit of tenants":           {outage{policy: limiter.Policy{Shared: true, Default: own}, keys: 3}, 20},
		"a common limit":                 {outage{policy: common(20), keys: 3}, 20},
		"the same, callers that leave":   {outage{policy: common(20), keys: 3, leave: 2 * time.Second}, 20},
		"a common limit, a bound":        {outage{policy: bounded, keys: 3}, 20},
		"a common limit and its queue":   {outage{policy: auto, keys: 3, queue: true}, 20},
		"a common limit and a long wait": {outage{policy: waiting, keys: 3, queue: true}, 20},
		"a small limit":                  {outage{policy: small}, 4},
		"nothing known":                  {outage{policy: limiter.Policy{Default: own}, calm: 10 * time.Millisecond}, 20},
	} {
		for _, lasts := range []time.Duration{15 * time.Second, 45 * time.Second} {
			t.Run(fmt.Sprint(name, " for ", lasts), func(t *testing.T) {
				o := tc.outage
				o.lasts = lasts
				if b := o.policy.Backend; b != nil {
					o.policy.Backend = &limiter.Backend{}
				}
				r := o.play(t)
				soon, bound := min(time.Second+lasts/7, 4*time.Second), max(tc.n, 8)
				if tc.n < 8 {
					soon = time.Second + lasts*2/3
				}
				if r.back < 0 || r.back > soon || r.full < 0 || r.full > soon+2*time.Second {
					t.Errorf("the first answer %v after the return, all are served after %v; want %v and %v at most", r.back, r.full, soon, soon+2*time.Second)
				}
				if r.worst > 2*bound || r.later > 3*bound {
					t.Errorf("%d at the backend at once while it hung, %d after that; want at most %d, %d", r.worst, r.later, 2*bound, 3*bound)
				}
			})
		}
	}
}

// A backend whose requests take 30 s is no backend that has stopped to answer: it is given
// no more than the limit. One that takes 30 s from one moment to the next is given
// the probes, once.
func TestASlowBackendIsLentNothing(t *testing.T) {
	policy := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(20), Signature: "f"}}
	long := 30 * time.Second
	t.Run("known", func(t *testing.T) {
		o := outage{policy: policy, calm: time.Second, lasts: 5 * time.Minute}
		o.takes = func(at, n int) time.Duration {
			if n == 0 {
				return long // the first alone, before the limit is reached
			}
			if at < 40_000 {
				return served
			}
			return long
		}
		o.seen = func(t *testing.T, at, inside int) {
			if inside > 20 {
				t.Fatalf("%d at work at %d ms", inside, at)
			}
		}
		o.play(t)
	})
	t.Run("new", func(t *testing.T) {
		o := outage{policy: policy, lasts: 5 * time.Minute}
		o.takes = func(at, _ int) time.Duration {
			if at < 5000 {
				return served
			}
			return long
		}
		o.seen = func(t *testing.T, at, inside int) {
			if at > 70_000 && inside > 20 || inside > 40 {
				t.Fatalf("%d at work at %d ms", inside, at)
			}
		}
		if r := o.play(t); r.worst <= 20 {
			t.Error("it was lent nothing: the test proves nothing")
		}
	})
}

// Some requests hang, and hold all permits; others would be answered at once. Those are
// served, and no more is at the backend than is said.
func TestWhatHangsIsNotAllThereIs(t *testing.T) {
	policy := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(20), Signature: "f"}}
	o := outage{policy: policy, calm: time.Second, lasts: 30 * time.Second}
	inTime := 0
	o.takes = func(at, _ int) time.Duration {
		if at > 1000 && at < 1300 {
			return 0
		}
		if at > 6000 && at < 25_000 {
			inTime++
		}
		return served
	}
	o.seen = func(t *testing.T, at, inside int) {
		if inside > 60 {
			t.Fatalf("%d at work at %d ms", inside, at)
		}
	}
	o.play(t)
	if inTime < 1800 {
		t.Errorf("%d of 1900 were served beside those that hang", inTime)
	}
}

// A backend that hangs again soon after it was back is found again, while permits of the
// first time are still held.
func TestABackendThatHangsTwiceIsFoundTwice(t *testing.T) {
	policy := limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: newFixed(20), Signature: "f"}}
	o := outage{policy: policy, lasts: 20 * time.Second, after: 5 * time.Second}
	var second int
	o.takes = func(at, _ int) time.Duration {
		switch {
		case at > 5000 && at < 9000, at > 14_000 && at < 25_000:
			return 0
		case at > 25_000:
			second++
		}
		return served
	}
	if r := o.play(t); r.back < 0 || r.back > 3*time.Second || second < 200 || r.worst > 60 {
		t.Errorf("%+v, %d served after the second time; want an answer within 3 s, 200, and at most 60 at the backend", r, second)
	}
}

// The total is never exceeded, by probes neither.
func TestTheTotalIsNotLent(t *testing.T) {
	policy := limiter.Policy{Total: 20, Default: limiter.PartitionPolicy{NewLimit: newFixed(20), Signature: "f"}}
	o := outage{policy: policy, lasts: 45 * time.Second}
	if r := o.play(t); r.worst != 20 || r.later > 20 {
		t.Errorf("%d and %d at the backend at once, with a total of 20", r.worst, r.later)
	}
}

// Permits are conserved while many end, leave and are lent at once, and after all of them
// have ended the limit holds again.
func TestProbesConservePermits(t *testing.T) {
	policies := map[string]*limiter.Policy{
		"own":    {Probe: true, Default: limiter.PartitionPolicy{NewLimit: newFixed(10), Signature: "f", QueueDepth: 4, MaxWait: time.Second}},
		"common": {Probe: true, Backend: &limiter.Backend{}, Common: &limiter.CommonLimit{NewLimit: newFixed(10), Signature: "f"}, Default: limiter.PartitionPolicy{QueueAuto: true}},
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			g := limiter.New("g", policy, limiter.Options{Clock: quickClock{time.Now()}})
			c := &holders{}
			var lent atomic.Int64
			var wg sync.WaitGroup
			for w := range 32 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 2))
					for range 250 {
						permit, ticket, err := g.Offer(g.Now(), limiter.Request{Key: fmt.Sprint("k", rng.IntN(2))})
						if ticket != nil {
							permit, err = sit(g, rng, ticket)
						}
						if err != nil {
							continue
						}
						if n := c.inside.Add(1); n > 20 {
							lent.Add(1)
						}
						raise(&c.worst, c.inside.Load())
						if rng.IntN(40) == 0 { // as long as many seconds
							for until := g.Now() + int64(8*time.Second); g.Now() < until; {
								time.Sleep(time.Microsecond)
							}
						}
						letGo(c, rng, &permit)
					}
				})
			}
			wg.Wait()
			if in := g.Status().InFlight; in != 0 {
				t.Errorf("%d in flight after all ended", in)
			}
			if policy.Backend != nil {
				if left := limiter.Leftovers(policy.Backend, g); left != "" {
					t.Errorf("after all ended there are left:%s", left)
				}
			}
			if worst := c.worst.Load(); worst > 2*30 {
				t.Errorf("%d were in flight at once", worst)
			}
			var held []*limiter.Permit
			for {
				p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "k0"})
				if err != nil {
					break
				}
				held = append(held, &p)
			}
			if len(held) != 10 {
				t.Errorf("%d permits in the end, want 10", len(held))
			}
			for _, p := range held {
				p.End(limiter.Ignored)
			}
		})
	}
}

// Permits that were granted in shadow mode are counted in a stall that is found
// later. After all of them have ended the limit holds again.
func TestAStallEndsWithPermitsOfShadow(t *testing.T) {
	policy := limiter.Policy{Probe: true, Mode: limiter.Shadow, Default: limiter.PartitionPolicy{NewLimit: newFixed(10), Signature: "f"}}
	backend := &limiter.Backend{}
	shared := policy
	shared.Backend, shared.Common, shared.Default = backend, &limiter.CommonLimit{NewLimit: newFixed(10), Signature: "f"}, limiter.PartitionPolicy{}
	for name, policy := range map[string]*limiter.Policy{"own": &policy, "common": &shared} {
		t.Run(name, func(t *testing.T) {
			clock := &tickingClock{}
			g := limiter.New("g", policy, limiter.Options{Clock: clock})
			var held []limiter.Permit
			at := int64(0)
			ask := func(n int) {
				for range n {
					at += int64(10 * time.Millisecond)
					clock.now.Store(at)
					if p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "k"}); err == nil {
						held = append(held, p)
					}
				}
			}
			end := func() {
				for i := range held {
					held[i].End(limiter.Dropped)
				}
				held = nil
			}
			ask(10)
			enforced := *policy
			enforced.Mode = limiter.Enforce
			g.Apply(&enforced)
			ask(2000) // nothing is answered for 20 s
			if len(held) <= 10 {
				t.Fatalf("%d are held; want more than the limit, or there is no stall", len(held))
			}
			end()
			if ask(100); len(held) != 10 {
				t.Errorf("%d permits after all have ended, want 10", len(held))
			}
			end()
		})
	}
}
