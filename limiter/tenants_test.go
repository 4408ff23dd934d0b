package limiter_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// together returns a policy of partitions under one limit, with automatic queues.
func together(limit int) *limiter.Policy {
	return &limiter.Policy{Shared: true, Default: limiter.PartitionPolicy{NewLimit: newFixed(limit), Signature: fmt.Sprint(limit), QueueAuto: true}}
}

// One tenant keeps a hundred connections busy beside twenty tenants with one each,
// under one limit. Each of the twenty gets at least 0.95 of what it got alone,
// and the hog what is left.
func TestHogBesideTwenty(t *testing.T) {
	const ms = time.Millisecond
	const length = 60 * time.Second
	for _, limit := range []int{24, 40} {
		alone := newSimGate(together(limit), 1).play(length, source{name: "one", req: limiter.Request{Key: "one"}, clients: 1, hold: 10 * ms})["one"].served
		y := newSimGate(together(limit), 1)
		sources := []source{{name: "hog", req: limiter.Request{Key: "hog"}, clients: 100, hold: 10 * ms, backoff: 5 * ms}}
		for i := range 20 {
			name := fmt.Sprint("tenant", i)
			sources = append(sources, source{name: name, req: limiter.Request{Key: name}, clients: 1, hold: 10 * ms, backoff: 5 * ms})
		}
		got := y.play(length, sources...)
		sum, worst := 0, 1.0
		for name, o := range got {
			if sum += o.served; name != "hog" {
				worst = min(worst, float64(o.served)/float64(alone))
			}
		}
		t.Logf("limit %d: the worst of twenty keeps %.3f of %d; the hog gets %d of %d", limit, worst, alone, got["hog"].served, sum)
		if worst < 0.95 {
			t.Errorf("limit %d: the worst of twenty keeps %.3f; want 0.95", limit, worst)
		}
		if use := float64(sum) / (float64(limit) * 100 * length.Seconds()); use < 0.95 {
			t.Errorf("limit %d: %.2f of the capacity is used; want all", limit, use)
		}
	}
}

// At the limit tenants hold what their weights say, however many requests each has
// and however long they take; what one does not want the others share.
func TestSharesByWeight(t *testing.T) {
	const ms = time.Millisecond
	p := together(32)
	p.Default.QueueAuto, p.Default.QueueDepth, p.Default.MaxWait = false, 1000, time.Minute
	heavy := p.Default
	heavy.Name, heavy.Weight = "heavy", 2
	capped := p.Default
	capped.Name, capped.MaxShare = "capped", 0.1
	p.Named = []limiter.PartitionPolicy{heavy, capped}
	y := newSimGate(p, 1)
	held, n := map[string]float64{}, 0.0
	y.each = func(now time.Duration) {
		if now < time.Second {
			return
		}
		n++
		for _, p := range y.gate.Status().Partitions {
			held[p.Name] += float64(p.InFlight)
		}
	}
	y.play(20*time.Second,
		source{name: "heavy", req: limiter.Request{Key: "heavy"}, clients: 50, hold: 10 * ms},
		source{name: "slow", req: limiter.Request{Key: "slow"}, clients: 50, hold: 100 * ms},
		source{name: "many", req: limiter.Request{Key: "many"}, clients: 200, hold: 10 * ms},
		source{name: "few", req: limiter.Request{Key: "few"}, clients: 1, hold: 10 * ms},
		source{name: "capped", req: limiter.Request{Key: "capped"}, clients: 50, hold: 10 * ms},
	)
	// One place to who wants one, three (0.1 of 32, rounded down) to the capped
	// one, and of the other 28 two parts, one and one.
	for name, want := range map[string]float64{"heavy": 14, "slow": 7, "many": 7, "few": 1, "capped": 3} {
		if got := held[name] / n; got < want*0.9-0.1 || got > want*1.1 {
			t.Errorf("%s holds %.1f on average; want %.0f", name, got, want)
		}
	}
}

// One tenant of a hundred asks ten times its share: the others do not notice
// (scenario S12 of noisy neighbours).
func TestNoisyTenantOfAHundred(t *testing.T) {
	const ms = time.Millisecond
	p := together(40)
	p.Default.NewLimit = func() limiter.Limit {
		l := &slow{base: 10 * ms}
		l.n.Store(40)
		return l
	}
	y := newSimGate(p, 1)
	sources := []source{{name: "noisy", req: limiter.Request{Key: "noisy"}, rate: 350, hold: 10 * ms}}
	for i := range 99 {
		name := fmt.Sprint("tenant", i)
		sources = append(sources, source{name: name, req: limiter.Request{Key: name}, rate: 35, hold: 10 * ms})
	}
	got := y.play(30*time.Second, sources...)
	served, squares, least := 0.0, 0.0, 1.0
	for name, o := range got {
		if name == "noisy" {
			continue
		}
		share := float64(o.served) / float64(o.offered)
		served, squares, least = served+share, squares+share*share, min(least, share)
	}
	jain := served * served / (99 * squares)
	t.Logf("of 99: %.4f served on average, %.3f at least, Jain %.4f; the noisy one %.3f", served/99, least, jain, float64(got["noisy"].served)/float64(got["noisy"].offered))
	if served/99 < 0.995 || jain < 0.95 {
		t.Errorf("%.4f of the others' requests were served, Jain %.3f; want 0.995 and 0.95", served/99, jain)
	}
}

// The last one who waited for a place of the total gave up, and the line went on
// saying that somebody waits: who came later was refused beside free places by a
// queue that was shut (seen in the lab: half of the capacity idle).
func TestWhoGaveUpWaitsNoMore(t *testing.T) {
	p := together(1)
	p.Default.QueueAuto, p.Default.QueueDepth, p.Default.MaxWait = false, 1, time.Hour
	g := limiter.New("g", p, limiter.Options{Clock: &stoppedClock{}})
	busy, _ := g.TryAdmit(0, limiter.Request{Key: "a"})
	wait(t, g, limiter.Request{Key: "b"}).Abandon()
	busy.End(limiter.Success)
	if _, ticket, err := g.Offer(0, limiter.Request{Key: "c"}); ticket != nil || err != nil {
		t.Errorf("with a place free: waits %v, %v; want a permit at once", ticket != nil, err)
	}
}

// Under one limit permits never pass it, whatever moves; a place is free only when
// nobody waits who may have it, and the limit hears of what all hold.
func TestOneLimitHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := &recordingLimit{}
		limit.n.Store(int64(rapid.IntRange(1, 6).Draw(t, "limit")))
		p := queueing(0, 1, 3, time.Hour)
		p.Shared, p.Classes = true, classes()
		p.Default.NewLimit = func() limiter.Limit { return limit }
		capped := p.Default
		capped.Name, capped.MaxShare = "c", 0.5
		p.Named = []limiter.PartitionPolicy{capped}
		clock := &stoppedClock{}
		g := limiter.New("g", p, limiter.Options{Clock: clock})
		var held []limiter.Permit
		var waiting []*limiter.Ticket
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			clock.now.Add(1000)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				limit.n.Store(int64(rapid.IntRange(1, 6).Draw(t, "limit")))
			case 1, 2:
				if len(held) > 0 {
					held[0].End(limiter.Success)
					held = held[1:]
				}
			default:
				before := len(held)
				permit, ticket, err := g.Offer(clock.Now(), limiter.Request{
					Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), Class: labels.Class(rapid.IntRange(0, 4).Draw(t, "class")),
				})
				if ticket != nil {
					waiting = append(waiting, ticket)
				} else if err == nil {
					if held = append(held, permit); before >= limit.Current() {
						t.Fatalf("a permit was granted with %d of %d held", before, limit.Current())
					}
				}
			}
			left := waiting[:0]
			for _, w := range waiting {
				if p, _, done, err := w.Step(clock.Now()); !done {
					left = append(left, w)
				} else if err != nil {
					t.Fatalf("a ticket with an hour of time was refused: %v", err)
				} else {
					held = append(held, p)
				}
			}
			waiting = left
			if s := g.Status(); s.InFlight != len(held) || s.Queued != len(waiting) || s.Total != limit.Current() {
				t.Fatalf("%d in flight, %d queued, of %d; want %d, %d, %d", s.InFlight, s.Queued, s.Total, len(held), len(waiting), limit.Current())
			}
		}
		for _, w := range waiting {
			w.Abandon()
		}
		for i := range held {
			held[i].End(limiter.Success)
		}
		if s := g.Status(); s.InFlight != 0 || s.Queued != 0 {
			t.Fatalf("left behind: %+v", s)
		}
		clock.now.Add(int64(time.Minute)) // until then some are left to who had less, or to classes above
		for range limit.Current() {       // every place came back
			if _, err := g.TryAdmit(clock.Now(), limiter.Request{Key: "a", Class: labels.Critical}); err != nil {
				t.Fatalf("a place of %d was lost: %v", limit.Current(), err)
			}
		}
	})
}

// Everything at once, by many: classes, shapes, one limit, queues, callers that give
// up and policies that change. Nothing is lost, and nothing races.
func TestEverythingAtOnce(t *testing.T) {
	p := together(8)
	p.Classes, p.Shapes = classes(), 16
	p.Default.Rate = limiter.Rate{PerSecond: 1e6}
	g := limiter.New("g", p, limiter.Options{})
	other := *p
	other.Shared, other.Total, other.Classes = false, 8, nil
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 500 {
				if worker == 0 && i%50 == 0 {
					g.Apply([]*limiter.Policy{p, &other}[i/50%2])
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%3)*time.Millisecond)
				permit, err := g.Admit(ctx, limiter.Request{
					Key: string(rune('a' + i%5)), Class: labels.Class(i % 5), MaxWait: time.Millisecond,
					Shape: g.Shape(uint64(i%24), func() string { return "shape" }),
				})
				if err == nil {
					time.Sleep(20 * time.Microsecond)
					permit.Carried(int64(i))
					permit.End(limiter.Success)
				}
				cancel()
				if i%100 == 0 {
					g.Status()
				}
			}
		})
	}
	all.Wait()
	if s := g.Status(); s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("left behind: %d in flight, %d queued", s.InFlight, s.Queued)
	}
	bare := *p
	bare.Classes = nil // the line of the overload would shed, which is no loss
	g.Apply(&bare)
	for n := range 8 {
		if _, err := g.Admit(t.Context(), limiter.Request{Key: "z", Class: labels.Critical}); err != nil { // one that cannot wait leaves some to who had less
			t.Fatalf("place %d of 8 was lost: %v", n, err)
		}
	}
}
