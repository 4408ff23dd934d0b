package statusdoc_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/limiter"
)

// desk is a daemon of one ingress, and a press that counts how often it is read.
type writer struct {
	*statusdoc.Cache

	reads      int
	partitions []limiter.PartitionStatus
}

func newWriter(names ...string) *writer {
	d := &writer{}
	for _, name := range names {
		d.partitions = append(d.partitions, limiter.PartitionStatus{Name: name, Limit: 10})
	}
	d.Cache = statusdoc.New(func(string, limiter.StatusOptions) statusdoc.Snapshot {
		d.reads++
		gate := limiter.Status{Partitions: append([]limiter.PartitionStatus(nil), d.partitions...), PartitionCount: len(d.partitions)}
		return statusdoc.Snapshot{Ingresses: []statusdoc.Ingress{{Name: "orders", Gate: gate}, {Name: "jobs"}}}
	}, &history.Book{}, func(ingress string) string { return "tag of " + ingress })
	return d
}

// frame returns what is told at a moment.
func (d *writer) frame(t *testing.T, now time.Time) *statusdoc.Frame {
	t.Helper()
	f, err := d.Frame(now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// One reading of the daemon is told to all who ask within a second, word for word;
// who has just changed something has it read anew.
func TestFrameIsShared(t *testing.T) {
	d := newWriter("default")
	now := time.Unix(1e9, 0)
	first := d.frame(t, now)
	for _, after := range []time.Duration{0, statusdoc.FrameAge - 1} {
		if d.frame(t, now.Add(after)) != first || d.reads != 1 {
			t.Errorf("after %v it was read %d times, and worded again", after, d.reads)
		}
	}
	if second := d.frame(t, now.Add(statusdoc.FrameAge)); second == first || d.reads != 2 {
		t.Errorf("a second later it was read %d times; want twice", d.reads)
	}
	d.Forget()
	if d.frame(t, now.Add(statusdoc.FrameAge)); d.reads != 3 {
		t.Errorf("after a change it was read %d times; want once more", d.reads)
	}
}

// event is what a reader is sent, as far as these tests look.
type event struct {
	Ingresses []struct {
		Name, ETag string
		Partitions []struct {
			Name  string
			Limit int
		}
		Gone []string
	}
}

func parse(t *testing.T, b []byte) (e event) {
	t.Helper()
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// Who has seen a frame is told what changed since: rows that are new or others, and
// the names of those that are gone. It is worded once for all of them.
func TestDelta(t *testing.T) {
	d := newWriter("default", "batch", "web")
	now := time.Unix(1e9, 0)
	before := d.frame(t, now)
	d.partitions[1].Limit = 12
	d.partitions[2].Name = "mobile"
	d.Forget()
	after := d.frame(t, now)
	delta, err := after.Delta(before)
	if err != nil {
		t.Fatal(err)
	}
	e := parse(t, delta)
	if len(e.Ingresses) != 2 || e.Ingresses[1].Name != "jobs" || e.Ingresses[0].ETag != "tag of orders" {
		t.Fatalf("the event is %s; want both ingresses", delta)
	}
	in := e.Ingresses[0]
	if len(in.Partitions) != 2 || in.Partitions[0].Name != "batch" || in.Partitions[0].Limit != 12 || in.Partitions[1].Name != "mobile" || len(in.Gone) != 1 || in.Gone[0] != "web" {
		t.Errorf("changed: %+v; want batch at 12, mobile, and web gone", in)
	}
	again, err := after.Delta(before)
	if err != nil || &again[0] != &delta[0] {
		t.Errorf("worded again: %v", err)
	}
	nothing, err := after.Delta(after)
	if in := parse(t, nothing).Ingresses[0]; err != nil || len(in.Partitions)+len(in.Gone) != 0 {
		t.Errorf("since itself: %+v, %v; want nothing", in, err)
	}
	whole, packed := after.Whole(false)
	if in := parse(t, whole).Ingresses[0]; packed != nil || len(in.Partitions) != 3 || len(in.Gone) != 0 {
		t.Errorf("the whole: %+v", in)
	}
	if one, ok := after.Of("jobs"); !ok || len(one.Ingresses) != 1 || one.Ingresses[0].Name != "jobs" {
		t.Errorf("of one ingress: %+v, %v", one.Ingresses, ok)
	}
	if _, ok := after.Of("nobody"); ok {
		t.Error("of an ingress that does not exist: something")
	}
}

// What cannot be worded is told to who asked, and asked again: the next one may be.
func TestFrameThatCannotBeWorded(t *testing.T) {
	d, odd := &writer{}, func() {}
	d.Cache = statusdoc.New(func(string, limiter.StatusOptions) statusdoc.Snapshot {
		s := statusdoc.Snapshot{Ingresses: []statusdoc.Ingress{{Name: "orders"}}}
		if odd != nil {
			s.Ingresses[0].Details = odd
		}
		return s
	}, &history.Book{}, func(string) string { return "" })
	now := time.Unix(1e9, 0)
	if _, err := d.Frame(now); !errors.As(err, new(*json.UnsupportedTypeError)) {
		t.Errorf("a function was worded: %v", err)
	}
	odd = nil
	if _, err := d.Frame(now.Add(statusdoc.FrameAge)); err != nil {
		t.Errorf("a second later: %v", err)
	}
}
