package vitals_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/vitals"
)

// Numbers go from a partition that made room to the next one, which begins anew: what
// was known of the other, its rates, its baseline and the moves of its limit, is gone
// with it. So is that of one whose number nobody has.
func TestANumberPassesOn(t *testing.T) {
	var book vitals.Book
	now := time.Unix(1e9, 0)
	read := func(all ...limiter.Glance) {
		now = now.Add(time.Second)
		book.Take(now, []vitals.Reading{{Name: "orders", Partitions: slices.Values(all)}})
	}
	old := limiter.Glance{Name: "old", Key: true, Number: 700, Limit: 9, BaseRTT: time.Millisecond}
	other := limiter.Glance{Name: "other", Key: true, Number: 3, Limit: 4}
	for range 5 {
		read(old, other)
		old.Admitted += 1000
		old.Refused += 50
		old.Limit++
		other.Admitted++
	}
	if name, _ := book.MostRefused("orders"); name != "old" {
		t.Errorf("most is refused for %q", name)
	}
	next := limiter.Glance{Name: "next", Key: true, Number: 700, Limit: 7, Admitted: 2}
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
