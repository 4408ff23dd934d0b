package history_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/limiter"
)

// Numbers go from a partition that made room to the next one, which begins anew: what
// was known of the other, its rates, its baseline and the moves of its limit, is gone
// with it. So is that of one whose number nobody has.
func TestANumberPassesOn(t *testing.T) {
	var book history.Book
	now := time.Unix(1e9, 0)
	read := func(all ...limiter.Brief) {
		now = now.Add(time.Second)
		book.Take(now, []history.Reading{{Name: "orders", Partitions: slices.Values(all)}})
	}
	old := limiter.Brief{Name: "old", Key: true, Number: 700, Limit: 9, BaseRTT: time.Millisecond}
	other := limiter.Brief{Name: "other", Key: true, Number: 3, Limit: 4}
	for range 5 {
		read(old, other)
		old.Admitted += 1000
		old.Refused += 50
		old.Limit++
		other.Admitted++
	}
	if name, n := book.MostRefused("orders"); name != "old" || n != 200 {
		t.Errorf("most is refused for %q, %d; want old, 200", name, n)
	}
	if name, n := book.MostRefused("orders"); n != 0 {
		t.Errorf("since then %d are refused for %q; want none", n, name)
	}
	next := limiter.Brief{Name: "next", Key: true, Number: 700, Limit: 7, Admitted: 2}
	read(next)
	if diff := cmp.Diff([]string{"next"}, book.Busiest("orders", 9)); diff != "" {
		t.Errorf("busiest (-want +got):\n%s", diff)
	}
	if name, rate := book.MostRefused("orders"); name != "" {
		t.Errorf("%v/s are refused for %q", rate, name)
	}
	for name, there := range map[string]bool{"old": false, "other": false, "next": true} {
		e, ok := book.Explain("orders", name, now)
		if ok != there || len(e.Changes) > 0 || e.Baseline.RTT != 0 {
			t.Errorf("%s: %v, %+v; want %v, and nothing known", name, ok, e, there)
		}
	}
	if all := book.Baselines(); len(all) != 0 {
		t.Errorf("baselines of partitions that are gone: %+v", all)
	}
	if s := book.Sentence("orders", &limiter.PartitionStatus{Name: "old", Key: true, Number: 700}); s != "" {
		t.Errorf("of the one that is gone it says %q", s)
	}
	if s := book.Sentence("orders", &limiter.PartitionStatus{Name: "next", Key: true, Number: 700}); s == "" {
		t.Error("nothing is said of the one that came")
	}
	if s := book.Sentence("orders", &limiter.PartitionStatus{Name: "unread", Key: true, Number: 5000}); s != "" {
		t.Errorf("of one that was not read yet it says %q", s)
	}
}

// After a pause nothing is known of how much was asked in it: a process that was
// stopped for a while told all that it had ever refused as what it refused in that while.
func TestAPauseIsNoRate(t *testing.T) {
	var book history.Book
	now := time.Unix(1e9, 0)
	quiet := limiter.Brief{Name: "quiet", Key: true, Number: 3, Limit: 9, Admitted: 1_000_000, Refused: 500_000}
	read := func(after time.Duration) {
		now = now.Add(after)
		book.Take(now, []history.Reading{{Name: "orders", Partitions: slices.Values([]limiter.Brief{quiet})}})
	}
	read(time.Second)
	read(time.Second)
	for range 3 {
		read(time.Minute)
		if all := book.Busiest("orders", 9); len(all) > 0 {
			t.Errorf("%v are busy, and asked for nothing", all)
		}
		if name, rate := book.MostRefused("orders"); name != "" {
			t.Errorf("%v/s are refused for %q, which asked for nothing", rate, name)
		}
	}
	quiet.Admitted += 100
	read(time.Second)
	if diff := cmp.Diff([]string{"quiet"}, book.Busiest("orders", 9)); diff != "" {
		t.Errorf("busiest after the pause (-want +got):\n%s", diff)
	}
}

// What is said of a partition is true of it while partitions make room for each other
// and hand their numbers on: each key has a limit and a baseline of its own here, which
// never move, so that what is another's, or moved, was read in the place of another.
func TestNumbersPassOnWhilePartitionsComeAndGo(t *testing.T) {
	const most, rounds, asked = 16, 40, 12
	clock := &ticks{}
	policy := &limiter.Policy{MaxPartitions: most, Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { s := still(1); return &s }}}
	var keys []string
	for i := range 64 {
		keys = append(keys, fmt.Sprintf("key-%02d", i))
	}
	g := limiter.New("orders", policy, limiter.Options{Clock: clock, Recall: func(partition string, _ bool, _ string) time.Duration {
		return time.Duration(100+max(slices.Index(keys, partition), 0)) * time.Millisecond
	}})
	var book history.Book
	now, known := time.Unix(1e9, 0), map[string]bool{}
	take := func() {
		now = now.Add(time.Second)
		book.Take(now, []history.Reading{{Name: "orders", Partitions: g.Briefs()}})
		for i, key := range keys {
			e, ok := book.Explain("orders", key, now)
			if want := 100 + i; ok && (e.Limit != want || e.Baseline.RTT != time.Duration(want)*time.Millisecond || len(e.Changes) > 0) {
				t.Errorf("%s: limit %d, baseline %v, moved %v; want %d, %v, and never", key, e.Limit, e.Baseline.RTT, e.Changes, want, time.Duration(want)*time.Millisecond)
			}
			if ok {
				known[key] = true
			}
		}
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for w := range 2 {
			wg.Go(func() {
				for i := range asked {
					clock.now.Add(int64(2 * time.Second)) // who was not asked of late is idle
					if p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: keys[(round*asked+i+w*len(keys)/2)%len(keys)]}); err == nil {
						p.End(limiter.Success)
					}
					runtime.Gosched()
				}
			})
		}
		take()
		take()
		wg.Wait()
		take()
		for _, p := range g.Status().Partitions {
			s := book.Sentence("orders", &p)
			if want := fmt.Sprintf(" takes %d ms", p.Limit); p.Key && !strings.Contains(s, want) || p.Number >= most+2 {
				t.Errorf("%s, number %d: %q; want %q, and a number below %d", p.Name, p.Number, s, want, most+2)
			}
		}
	}
	if len(known) < len(keys) || len(book.LimitChanges()) > 0 {
		t.Errorf("%d of %d keys were known for a time; %+v", len(known), len(keys), book.LimitChanges())
	}
}

// still is a limit that does not move once it was told its baseline, which it is in
// milliseconds.
type still int

func (s *still) Recall(base time.Duration)             { *s = still(base.Milliseconds()) }
func (s *still) Current() int                          { return int(*s) }
func (s *still) BaseRTT() time.Duration                { return time.Duration(*s) * time.Millisecond }
func (*still) Observe(int64, time.Duration, int, bool) {}

// ticks is a clock that others move.
type ticks struct{ now atomic.Int64 }

func (c *ticks) Now() int64  { return c.now.Load() }
func (*ticks) Trusted() bool { return true }
func (*ticks) Epoch() uint32 { return 0 }
