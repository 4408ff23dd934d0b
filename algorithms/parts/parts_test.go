package parts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// A sum counts and adds up to a grain of 1024 ns, says when it is half full, and is
// empty once it was drained.
func TestSum(t *testing.T) {
	var s parts.Sum
	for i := range int64(1000) {
		if n, full := s.Add(2048 * time.Nanosecond); n != i+1 || full {
			t.Fatalf("after %d: %d, full %v", i+1, n, full)
		}
	}
	if n := s.Count(); n != 1000 {
		t.Errorf("%d are counted; want 1000", n)
	}
	if n, ns := s.Drain(); n != 1000 || ns != 2048*1000 {
		t.Errorf("drained %d of %v ns together; want 1000 of 2,048,000", n, ns)
	}
	if n, ns := s.Drain(); n != 0 || ns != 0 || s.Count() != 0 {
		t.Errorf("drained again: %d of %v ns", n, ns)
	}
	// Half of the word for the time is full with 2^43 grains of 1024 ns.
	longest := 0
	for full := false; !full; longest++ {
		_, full = s.Add(parts.MaxLatency)
	}
	if grains := int(parts.MaxLatency >> 10); longest != (1<<43+grains-1)/grains {
		t.Errorf("full after %d of the longest latency", longest)
	}
	s.Drain()
	for i := 1; ; i++ {
		if _, full := s.Add(1); full {
			if i != parts.FullSize {
				t.Errorf("full after %d of the shortest latency; want %d", i, parts.FullSize)
			}
			break
		}
	}
}

// What cannot be is left out: no latency, one of more than a minute, nobody in flight.
// Of a drop the latency does not matter.
func TestPossible(t *testing.T) {
	for _, tc := range []struct {
		latency  time.Duration
		inFlight int
		dropped  bool
		want     bool
	}{
		{1, 1, false, true},
		{time.Minute, 1 << 24, false, true},
		{0, 1, false, false},
		{-1, 1, false, false},
		{time.Minute + 1, 1, false, false},
		{1, 0, false, false},
		{1, -1, false, false},
		{1, 1<<24 + 1, false, false},
		{0, 1, true, true},
		{time.Hour, 1, true, true},
		{1, 0, true, false},
	} {
		if got := parts.Possible(tc.latency, tc.inFlight, tc.dropped); got != tc.want {
			t.Errorf("Possible(%v, %d, %v) = %v; want %v", tc.latency, tc.inFlight, tc.dropped, got, tc.want)
		}
	}
}

// Options are told by name, all that is wrong with one algorithm at once.
func TestChecks(t *testing.T) {
	for _, tc := range []struct {
		initial, low, high int
		want               []string
	}{
		{20, 1, 200, nil},
		{1, 1, 1, nil},
		{parts.MaxLimit, 1, parts.MaxLimit, nil},
		{20, 0, 200, []string{"minLimit must be in [1, 1000000] (0)"}},
		{20, 20, 19, []string{"maxLimit must be in [20, 1000000] (19)", "initialLimit must be in [20, 19] (20)"}},
		{201, 1, 200, []string{"initialLimit must be in [1, 200] (201)"}},
		{20, 1, parts.MaxLimit + 1, []string{"maxLimit must be in [1, 1000000] (1000001)"}},
	} {
		err := parts.Check("vegas", parts.Bounds(tc.initial, tc.low, tc.high))
		if (err == nil) != (tc.want == nil) {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.HasPrefix(err.Error(), "algorithms: vegas: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v; want %s in it", tc, err, want)
			}
		}
	}
	for what, err := range map[string]error{
		"tolerance must be in [1, 2] (2.5)":        parts.Within("tolerance", 2.5, "[1, 2]", false),
		"timeout must be > 0 (0s)":                 parts.Positive("timeout", 0),
		"window must be in [100ms, 10s] (99ms)":    parts.Between("window", 99*time.Millisecond, 100*time.Millisecond, 10*time.Second),
		"window must be in [100ms, 10s] (10.001s)": parts.Between("window", 10001*time.Millisecond, 100*time.Millisecond, 10*time.Second),
	} {
		if err == nil || err.Error() != what {
			t.Errorf("%v; want %s", err, what)
		}
	}
	for _, err := range []error{parts.Within("a", 1, "", true), parts.Positive("a", 1), parts.Between("a", 1, 1, 1), parts.Check("a", nil, nil)} {
		if err != nil {
			t.Errorf("%v; want it taken", err)
		}
	}
	if parts.Or(0, 7) != 7 || parts.Or(3, 7) != 3 {
		t.Error("what is zero is not replaced, or what is not is")
	}
}

// What was asked counts from when the limit began to watch, and once.
func TestDemand(t *testing.T) {
	offered, refused := uint64(100), uint64(10)
	var d parts.Demand
	if _, _, ok := d.Take(); ok {
		t.Error("the zero value knows something")
	}
	d.Watch(func() (uint64, uint64) { return offered, refused })
	if o, r, ok := d.Take(); o != 0 || r != 0 || !ok {
		t.Errorf("at first: %d and %d, %v; want nothing of before", o, r, ok)
	}
	offered, refused = 107, 13
	if o, r, _ := d.Take(); o != 7 || r != 3 {
		t.Errorf("offered %d, refused %d; want 7 and 3", o, r)
	}
	if o, r, _ := d.Take(); o != 0 || r != 0 {
		t.Errorf("told twice: %d and %d", o, r)
	}
}

// A change is one of the number; why it would be another is remembered with it.
func TestChange(t *testing.T) {
	var c parts.Change
	c.Note(int64(5*time.Second), 20, 18, parts.WhyQueue)
	c.Note(int64(9*time.Second), 18, 18, parts.WhyRoom)
	state := map[string]float64{}
	c.Report(state)
	if c.Why != parts.WhyQueue || state["changed_from"] != 20 || state["changed_to"] != 18 || state["changed_at_seconds"] != 5 {
		t.Errorf("the last change is %s, %v; want the one from 20 to 18 at 5 s", c.Why, state)
	}
}
