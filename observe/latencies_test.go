package observe_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

// What was recorded is found again, in buckets a tenth wide.
func TestLatencies(t *testing.T) {
	m := observe.New(observe.Options{})
	if got := m.Latencies("orders", "default", limiter.Success); len(got) != 0 {
		t.Errorf("Latencies of nothing = %v; want none", got)
	}
	r := m.Gate("orders").Recorder("default")
	recorded := []time.Duration{time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 11 * time.Millisecond, 3 * time.Second}
	for _, d := range recorded {
		r.Ended(d, limiter.Success)
		r.Ended(time.Hour, limiter.Dropped)
	}
	got := m.Latencies("orders", "default", limiter.Success)
	for _, d := range recorded {
		found := false
		for bound, n := range got {
			found = found || n > 0 && bound >= d.Seconds()*0.999 && bound <= d.Seconds()*1.1
		}
		if !found {
			t.Errorf("no bucket for %v in %v", d, got)
		}
	}
	total := uint64(0)
	for _, n := range got {
		total += n
	}
	if total != uint64(len(recorded)) {
		t.Errorf("%d latencies in %v; want %d", total, got, len(recorded))
	}
}
