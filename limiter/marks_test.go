package limiter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Whatever a partition can count is in the sums of its ingress and in its glance, each
// of it alone in its partition: those who read a hundred thousand partitions look only
// where something was marked as counted, and what was not marked would be missing.
func TestWhatIsCountedIsInTheSums(t *testing.T) {
	for name, of := range map[string]*limiter.Classes{"no classes": nil, "classes": classes()} {
		t.Run(name, func(t *testing.T) { countEverything(t, of) })
	}
}

// countEverything makes partitions of which each counts one thing.
func countEverything(t *testing.T, of *limiter.Classes) {
	t.Helper()
	const cause = labels.ConcurrencyLimit
	clock := &stoppedClock{}
	policy := &limiter.Policy{
		Classes: of, Default: limiter.PartitionPolicy{NewLimit: newFixed(1), QueueDepth: 1, MaxWait: time.Second},
	}
	shadow := *policy
	shadow.Mode = limiter.Shadow
	g := limiter.New("g", policy, limiter.Options{Clock: clock})
	offer := func(req limiter.Request) (*limiter.Permit, *limiter.Ticket) {
		clock.now.Add(int64(time.Millisecond))
		p, ticket, _ := g.Offer(clock.Now(), req)
		return &p, ticket
	}
	for key, count := range map[string]func(key string){
		"refused": func(key string) {
			offer(limiter.Request{Key: key})
			offer(limiter.Request{Key: key, MaxWait: limiter.NoWait})
		},
		"spared": func(key string) {
			g.Apply(&shadow)
			offer(limiter.Request{Key: key})
			offer(limiter.Request{Key: key})
			g.Apply(policy)
		},
		"dropped": func(key string) { p, _ := offer(limiter.Request{Key: key}); p.End(limiter.Dropped) },
		"ignored": func(key string) { p, _ := offer(limiter.Request{Key: key}); p.End(limiter.Ignored) },
		"left":    func(key string) { p, _ := offer(limiter.Request{Key: key}); p.Leave() },
		"wasted":  func(key string) { p, _ := offer(limiter.Request{Key: key}); p.Leave(); p.End(limiter.Success) },
		"waited": func(key string) {
			p, _ := offer(limiter.Request{Key: key})
			_, ticket := offer(limiter.Request{Key: key})
			clock.now.Add(int64(time.Millisecond))
			p.End(limiter.Success)
			if _, _, done, err := ticket.Step(clock.Now()); !done || err != nil {
				t.Errorf("%s: done %v, %v", key, done, err)
			}
		},
		"gave up": func(key string) {
			offer(limiter.Request{Key: key})
			_, ticket := offer(limiter.Request{Key: key})
			ticket.Abandon()
		},
		"exempt":   func(key string) { offer(limiter.Request{Key: key, Exempt: true}) },
		"too long": func(key string) { p, _ := offer(limiter.Request{Key: key}); p.EndSampled(time.Hour, limiter.Success) },
		"no time":  func(key string) { p, _ := offer(limiter.Request{Key: key}); p.EndSampled(0, limiter.Success) },
		"epoch":    func(key string) { p, _ := offer(limiter.Request{Key: key}); clock.epoch.Add(1); p.End(limiter.Success) },
		"class":    func(key string) { offer(limiter.Request{Key: key, Unclear: true}) },
	} {
		first := g.Status()
		count(key)
		s := g.Status()
		before, after := first.Labels[0].Counts, s.Labels[0].Counts
		if unknown := s.UnknownClasses - first.UnknownClasses; of != nil && key == "class" && unknown != 1 {
			t.Errorf("%d requests have named no class that there is, want 1", unknown)
		}
		for i := range s.Partitions {
			p := &s.Partitions[i]
			if p.Name != key {
				continue
			}
			if diff := cmp.Diff(p.Counts, minus(after, before)); diff != "" {
				t.Errorf("%s: what was added to the sums is not what the partition counts (-partition +sums):\n%s", key, diff)
			}
			for v := range g.Briefs() {
				if v.Name != key {
					continue
				}
				got := [...]uint64{v.Admitted, v.Refused, v.WouldRefuse, v.Dropped, v.Succeeded, uint64(v.Busy)}
				c := p.Counts
				want := [...]uint64{c.Admitted, c.Rejected[cause], c.WouldReject[cause], c.Dropped, c.Succeeded(p.InFlight), uint64(c.Busy)}
				if got != want {
					t.Errorf("%s: glance %d, want %d", key, got, want)
				}
			}
		}
	}
}

// minus returns what was counted in between.
func minus(after, before limiter.Counts) limiter.Counts {
	for _, n := range []struct{ to, from *uint64 }{
		{&after.Admitted, &before.Admitted},
		{&after.Exempted, &before.Exempted},
		{&after.GaveUp, &before.GaveUp},
		{&after.Abandoned, &before.Abandoned},
		{&after.Wasted, &before.Wasted},
		{&after.Unheard, &before.Unheard},
		{&after.Dropped, &before.Dropped},
		{&after.Ignored, &before.Ignored},
		{&after.Waits, &before.Waits},
	} {
		*n.to -= *n.from
	}
	after.Busy -= before.Busy
	after.Waited -= before.Waited
	after.Rejected, after.WouldReject = less(after.Rejected, before.Rejected), less(after.WouldReject, before.WouldReject)
	after.RejectedBy, after.WouldRejectBy = less(after.RejectedBy, before.RejectedBy), less(after.WouldRejectBy, before.WouldRejectBy)
	after.Discarded = less(after.Discarded, before.Discarded)
	return after
}

// less returns what was counted in between; by cause there are no zeros.
func less[K comparable](after, before map[K]uint64) map[K]uint64 {
	var out map[K]uint64
	for k, n := range after {
		if _, byCause := any(k).(limiter.Cause); byCause && n == before[k] {
			continue
		}
		if out == nil {
			out = map[K]uint64{}
		}
		out[k] = n - before[k]
	}
	return out
}

// A partition has a number of its own as long as it exists, and numbers stay small:
// who keeps something of each partition finds it there. One that made room leaves its
// number to the next.
func TestNumbers(t *testing.T) {
	const most = 4
	clock := &stoppedClock{}
	policy := &limiter.Policy{MaxPartitions: most, Named: []limiter.PartitionPolicy{{Name: "gold"}}}
	g := limiter.New("g", policy, limiter.Options{Clock: clock})
	numbers := func() map[string]int {
		all, taken := map[string]int{}, map[int]string{}
		for v := range g.Briefs() {
			if other, twice := taken[v.Number]; twice || v.Number >= most+3 {
				t.Errorf("%s has number %d, as %q; want one of the first %d", v.Name, v.Number, other, most+3)
			}
			taken[v.Number], all[v.Name] = v.Name, v.Number
		}
		for _, p := range g.Status().Partitions {
			if p.Number != all[p.Name] {
				t.Errorf("%s has number %d in the status, and %d", p.Name, p.Number, all[p.Name])
			}
		}
		return all
	}
	var before map[string]int
	for i := range 20 {
		key := string(rune('a' + i))
		if p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: key}); err == nil {
			p.End(limiter.Success)
		}
		now := numbers()
		if _, ok := now[key]; !ok {
			t.Errorf("%s has no partition: %v", key, now)
		}
		for name, n := range before {
			if m, still := now[name]; still && m != n {
				t.Errorf("%s had number %d and has %d", name, n, m)
			}
		}
		before = now
		clock.now.Add(int64(12 * time.Second))
		if i == 10 { // a reload that forgets a partition and most keys
			policy = &limiter.Policy{MaxPartitions: 2}
		}
		g.Apply(policy)
	}
	if _, still := before["gold"]; still {
		t.Errorf("gold is named no more, and is there: %v", before)
	}
}
