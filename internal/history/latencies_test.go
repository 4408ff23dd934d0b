package history_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/internal/history"
)

// Quantiles are of the last ten seconds: what was slow before that is
// forgotten, and buckets that were drawn anew are not subtracted.
func TestQuantilesOfTheLastSeconds(t *testing.T) {
	const fast, slow = 0.010, 0.500
	for name, tc := range map[string]struct {
		readings []history.Latencies
		p50, p99 time.Duration
	}{
		"nothing was counted":     {[]history.Latencies{nil, nil}, 0, 0},
		"nothing came":            {[]history.Latencies{{fast: 7}, {fast: 7}}, 0, 0},
		"what was before is over": {[]history.Latencies{{slow: 900}, {slow: 900, fast: 10}}, 10 * time.Millisecond, 10 * time.Millisecond},
		"one in fifty is slow":    {[]history.Latencies{{}, {fast: 49, slow: 1}}, 10 * time.Millisecond, 500 * time.Millisecond},
		"buckets drawn anew":      {[]history.Latencies{{fast: 5, slow: 5}, {slow: 10}, {slow: 12}}, 500 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var book history.Book
			now := time.Unix(1e9, 0)
			for i, l := range tc.readings {
				book.Take(now.Add(time.Duration(i)*time.Second), []history.Reading{{Name: "orders", Latencies: l}})
			}
			if p50, p99 := book.Quantiles("orders"); p50 != tc.p50 || p99 != tc.p99 {
				t.Errorf("Quantiles = %v, %v; want %v, %v", p50, p99, tc.p50, tc.p99)
			}
		})
	}
	var book history.Book
	now := time.Unix(1e9, 0)
	for i := range 12 {
		now = now.Add(time.Second)
		l := history.Latencies{slow: 5, fast: uint64(i)}
		if i == 0 {
			l[slow] = 0
		}
		book.Take(now, []history.Reading{{Name: "orders", Latencies: l}})
	}
	if _, p99 := book.Quantiles("orders"); p99 != 10*time.Millisecond {
		t.Errorf("p99 = %v after ten fast seconds; want 10ms", p99)
	}
}
