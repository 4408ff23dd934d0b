package observe_test

import (
	"slices"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/observe"
)

// What was silent: a certificate that had expired, a state file on a full disk.
func TestProcess(t *testing.T) {
	m := observe.New(observe.Options{})
	expires := time.Unix(1_800_000_000, 0)
	m.WatchDoor("orders", door{Certificate: expires, Refused: make([]uint64, len(ingress.Refusals()))})
	m.WatchDoor("plain", door{})
	m.WatchCertificate("decisions", func() time.Time { return expires.Add(time.Second) })
	m.WatchCertificate("none", func() time.Time { return time.Time{} })
	if f := gather(t, m)["admitd_state_last_write_successful"]; f != nil {
		t.Errorf("without a state file: %v; want nothing", f)
	}
	m.StateWritten(true, time.Unix(1_700_000_000, 0))
	m.StateWritten(false, time.Unix(1_700_000_060, 0))
	got := gather(t, m)
	for name, want := range map[string][]string{
		"admitd_tls_certificate_expiry_timestamp_seconds":   {"listener=decisions 1.800000001e+09", "listener=orders 1.8e+09"},
		"admitd_state_last_write_successful":                {" 0"},
		"admitd_state_last_write_success_timestamp_seconds": {" 1.7e+09"},
		"admitd_scheduler_delay_seconds":                    {" 0"},
	} {
		lines := series(got[name])
		slices.Sort(lines)
		if !slices.Equal(lines, want) {
			t.Errorf("%s = %q; want %q", name, lines, want)
		}
	}
}

// The delay is that of the last ten seconds, and what came before is forgotten.
func TestDelays(t *testing.T) {
	var d observe.Delays
	bounds := []float64{0, .001, .01, .1}
	counts := make([]uint64, 3)
	for i, step := range []struct {
		more [3]uint64
		want time.Duration
	}{
		{[3]uint64{1000, 0, 500}, 0}, // before anything was read
		{[3]uint64{100, 0, 0}, time.Millisecond},
		{[3]uint64{97, 3, 0}, 10 * time.Millisecond}, // 3 of 200
		{[3]uint64{0, 0, 300}, 100 * time.Millisecond},
	} {
		for j := range counts {
			counts[j] += step.more[j]
		}
		if got := d.Add(counts, bounds); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	for range 10 {
		counts[0] += 100
		d.Add(counts, bounds)
	}
	if got := d.Add(counts, bounds); got != time.Millisecond {
		t.Errorf("ten seconds later: %v, want 1ms", got)
	}
}

// A process that stands still as a whole counts no waiting goroutines: its timers are late.
func TestDelaysOfTimers(t *testing.T) {
	var d observe.Delays
	bounds, counts := []float64{0, .001}, []uint64{1000}
	for i, step := range []struct {
		late time.Duration
		n    int
		want time.Duration
	}{
		{80 * time.Millisecond, 49, 0}, // in less than a second
		{time.Millisecond, 401, 80 * time.Millisecond},
		{time.Millisecond, 48, 80 * time.Millisecond},
		{time.Millisecond, 51, time.Millisecond}, // ten seconds later
		{time.Hour, 5, time.Millisecond},         // the machine slept
		{80 * time.Millisecond, 6, 80 * time.Millisecond},
		{-time.Millisecond, 500, 0},
	} {
		for range step.n {
			d.Late(step.late)
		}
		if got := d.Add(counts, bounds); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
