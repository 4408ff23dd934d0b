package limiter_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// lined returns a gate of classes with a limit of one and a queue, and its clock.
func lined(depth int) (*limiter.Gate, *stoppedClock) {
	clock := &stoppedClock{}
	clock.now.Store(int64(time.Second))
	p := queueing(0, 1, depth, time.Hour)
	p.Classes = classes()
	return limiter.New("g", p, limiter.Options{Clock: clock}), clock
}

// wait offers a request that must wait.
func wait(t *testing.T, g *limiter.Gate, req limiter.Request) *limiter.Ticket {
	t.Helper()
	_, ticket, err := g.Offer(g.Now(), req)
	if ticket == nil {
		t.Fatalf("%+v does not wait: %v", req, err)
	}
	return ticket
}

// isServed reports whether a ticket was granted its permit.
func isServed(t *testing.T, ticket *limiter.Ticket) bool {
	t.Helper()
	select {
	case <-ticket.Ready():
		return true
	default:
		return false
	}
}

// A critical request behind a sheddable one with the same key stood in line
// behind it: the queue was one. The queue of a class is its own, and full for
// those only who matter less.
func TestCriticalDoesNotWaitForSheddable(t *testing.T) {
	g, _ := lined(3)
	busy, _ := g.TryAdmit(g.Now(), limiter.Request{Key: "k"})
	var low []*limiter.Ticket
	for range 3 {
		low = append(low, wait(t, g, limiter.Request{Key: "k", Class: labels.Sheddable}))
	}
	if _, _, err := g.Offer(g.Now(), limiter.Request{Key: "k", Class: labels.Sheddable}); reason(t, err) != labels.ConcurrencyLimit {
		t.Fatalf("a fourth sheddable one: %v; want that the queue is full", err)
	}
	high := wait(t, g, limiter.Request{Key: "k"})
	busy.End(limiter.Success)
	if !isServed(t, high) || isServed(t, low[0]) {
		t.Errorf("served: critical %v, sheddable %v; want the critical one first", isServed(t, high), isServed(t, low[0]))
	}
}

// While all classes wait, of fifteen places eight, four, two and one are theirs:
// nobody starves, and nobody waits longer than a round.
func TestClassesTakeTurns(t *testing.T) {
	g, _ := lined(1000)
	busy, _ := g.TryAdmit(g.Now(), limiter.Request{})
	all := labels.Classes()[:4]
	waiting := map[labels.Class][]*limiter.Ticket{}
	for _, c := range all {
		for range 100 {
			waiting[c] = append(waiting[c], wait(t, g, limiter.Request{Class: c}))
		}
	}
	served := map[labels.Class]int{}
	for range 45 {
		busy.End(limiter.Success)
		for _, c := range all {
			if ticket := waiting[c][0]; isServed(t, ticket) {
				busy, _, _, _ = ticket.Step(g.Now())
				waiting[c] = waiting[c][1:]
				served[c]++
				break
			}
		}
	}
	for i, want := range []int{24, 12, 6, 3} {
		if served[all[i]] != want {
			t.Errorf("%v: %d of 45 places; want %d (%v)", all[i], served[all[i]], want, served)
		}
	}
}

// Sheddable work leaves a place free, so that critical work finds it before the
// first turn of the line. A small limit has none to spare.
func TestHeadroom(t *testing.T) {
	for limit, want := range map[int]int{1: 1, 3: 3, 4: 3, 20: 19, 100: 95} {
		p := classed(limit)
		p.Default.QueueAuto = false
		g := limiter.New("g", p, limiter.Options{Clock: &stoppedClock{}})
		n := 0
		for ; n <= limit; n++ {
			if _, err := g.TryAdmit(0, limiter.Request{Class: labels.SheddablePlus}); err != nil {
				break
			}
		}
		if n != want {
			t.Errorf("limit %d: %d sheddable requests in flight; want %d", limit, n, want)
		}
		if _, err := g.TryAdmit(0, limiter.Request{}); (err == nil) != (want < limit) {
			t.Errorf("limit %d: a critical one: %v", limit, err)
		}
	}
}

// A queue that has stood serves who came last: those in front have waited for so
// long that they may be gone.
func TestLastComesFirstWhenTheQueueStands(t *testing.T) {
	g, clock := lined(10)
	busy, _ := g.TryAdmit(g.Now(), limiter.Request{})
	patient := limiter.Request{MaxWait: 200 * time.Millisecond}
	first, second := wait(t, g, patient), wait(t, g, patient)
	clock.now.Add(int64(50 * time.Millisecond))
	busy.End(limiter.Success)
	if !isServed(t, first) {
		t.Fatal("after 50 ms the first one is not served")
	}
	busy, _, _, _ = first.Step(g.Now())
	clock.now.Add(int64(101 * time.Millisecond))
	third := wait(t, g, patient)
	busy.End(limiter.Success)
	if isServed(t, second) || !isServed(t, third) {
		t.Error("after 151 ms of 200 the second one was served before the third")
	}
}

// A queue that always holds somebody and serves everybody in time was turned round
// all the same: of clients that wait for each other, as those of PostgreSQL do, three
// in ten were refused for nothing (seen live).
func TestALongQueueServesEverybodyInOrder(t *testing.T) {
	const ms = time.Millisecond
	p := queueing(0, 10, 1000, 250*ms)
	y := newSimGate(p, 1)
	got := y.play(20*time.Second, source{name: "a", clients: 68, hold: 20 * ms, pause: 5 * ms})["a"]
	if float64(got.refused) > 0.01*float64(got.offered) {
		t.Errorf("%v; want nobody refused: the queue is half as long as their patience", got)
	}
}

// A request whose time is over is not served, however late it says so itself; one
// whose deadline is nearer than its turn does not wait for it.
func TestDeadlines(t *testing.T) {
	g, clock := lined(10)
	for range 20 { // requests take 100 ms
		p, _ := g.TryAdmit(g.Now(), limiter.Request{})
		if _, err := g.TryAdmit(g.Now(), limiter.Request{}); err != nil {
			err.(*limiter.Rejection).Hint(limiter.Request{}) //nolint:errorlint,forcetypeassert // somebody must want to know
		}
		clock.now.Add(int64(100 * time.Millisecond))
		p.End(limiter.Success)
	}
	busy, _ := g.TryAdmit(g.Now(), limiter.Request{})
	patient := wait(t, g, limiter.Request{MaxWait: 300 * time.Millisecond})
	if _, ticket, err := g.Offer(g.Now(), limiter.Request{MaxWait: 120 * time.Millisecond}); ticket != nil || reason(t, err) != labels.ConcurrencyLimit {
		t.Errorf("120 ms of patience behind one that takes 100: %v; want refused at once", err)
	}
	clock.now.Add(int64(time.Second))
	busy.End(limiter.Success)
	if isServed(t, patient) || g.Status().InFlight != 0 {
		t.Error("a request was served 700 ms after its caller had gone")
	}
	if _, _, done, err := patient.Step(g.Now()); !done || reason(t, err) != labels.QueueTimeout {
		t.Errorf("its Step: %v, %v; want queue_timeout", done, err)
	}
}

// A permit that its caller collects after the deadline is given back: what is
// forwarded then is work for nobody.
func TestTooLateToForward(t *testing.T) {
	g, clock := lined(10)
	busy, _ := g.TryAdmit(g.Now(), limiter.Request{})
	ticket := wait(t, g, limiter.Request{Deadline: 50 * time.Millisecond})
	clock.now.Add(int64(40 * time.Millisecond))
	busy.End(limiter.Success)
	clock.now.Add(int64(40 * time.Millisecond))
	if _, _, done, err := ticket.Step(g.Now()); !done || reason(t, err) != labels.QueueTimeout {
		t.Errorf("Step = %v, %v; want queue_timeout", done, err)
	}
	if n := g.Status().InFlight; n != 0 {
		t.Errorf("%d in flight; want none", n)
	}
}

// Waits and deadlines without end never come. They overflowed: the request was granted
// a permit and then refused as queue_timeout.
func TestEndlessDeadline(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	for name, tc := range map[string]struct {
		req   limiter.Request
		queue time.Duration
	}{
		"of the caller": {limiter.Request{Deadline: never}, 2 * time.Hour},
		"of its wait":   {limiter.Request{MaxWait: never}, never},
		"of the queue":  {limiter.Request{}, never},
	} {
		clock := &stoppedClock{}
		clock.now.Store(int64(time.Hour))
		g := limiter.New("g", queueing(0, 1, 10, tc.queue), limiter.Options{Clock: clock})
		busy, _ := g.TryAdmit(g.Now(), limiter.Request{})
		_, ticket, err := g.Offer(g.Now(), tc.req)
		if ticket == nil {
			t.Errorf("%s: %v; want it to wait", name, err)
			continue
		}
		clock.now.Add(int64(time.Hour))
		if _, next, done, err := ticket.Step(g.Now()); done || next <= g.Now() {
			t.Errorf("%s: after an hour Step = %v, %v, %v; want to be called later", name, next, done, err)
			continue
		}
		busy.End(limiter.Success)
		if permit, _, done, err := ticket.Step(g.Now()); !done || err != nil {
			t.Errorf("%s: Step = %v, %v; want a permit", name, done, err)
		} else {
			permit.End(limiter.Success)
		}
	}
}

// Every request of a class is counted once, whatever becomes of it.
func TestClassesAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := queueing(rapid.IntRange(0, 3).Draw(t, "total"), 2, 2, 50*time.Millisecond)
		p.Classes = classes()
		clock := &stoppedClock{}
		g := limiter.New("g", p, limiter.Options{Clock: clock})
		var held []limiter.Permit
		var waiting []*limiter.Ticket
		offered := map[labels.Class]uint64{}
		step := func() {
			left := waiting[:0]
			for _, w := range waiting {
				p, _, done, err := w.Step(clock.Now())
				switch {
				case !done:
					left = append(left, w)
				case err == nil:
					held = append(held, p)
				}
			}
			waiting = left
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			clock.now.Add(rapid.Int64Range(0, 2e7).Draw(t, "ns"))
			if rapid.Bool().Draw(t, "ends") && len(held) > 0 {
				held[0].End(limiter.Success)
				held = held[1:]
			} else {
				class := labels.Classes()[rapid.IntRange(0, 3).Draw(t, "class")]
				offered[class]++
				permit, ticket, err := g.Offer(clock.Now(), limiter.Request{Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Class: class})
				switch {
				case ticket != nil:
					waiting = append(waiting, ticket)
				case err == nil:
					held = append(held, permit)
				}
			}
			step()
			if s := g.Status(); s.InFlight != len(held) || s.Queued != len(waiting) {
				t.Fatalf("%d in flight, %d queued; want %d and %d", s.InFlight, s.Queued, len(held), len(waiting))
			}
		}
		clock.now.Add(int64(time.Hour))
		step()
		for _, n := range g.Status().Classes {
			if got := n.Admitted + n.Rejected + n.Shed; got != offered[n.Class] {
				t.Fatalf("%v: %+v makes %d; %d were offered", n.Class, n, got, offered[n.Class])
			}
		}
	})
}
