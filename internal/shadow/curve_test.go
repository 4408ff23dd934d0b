package shadow_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/internal/shadow"
)

// What lies far from all that was seen is told as a guess, on both sides. A candidate
// far narrower than the limit in force was told 3.5 ms before a backend of 20 ms, as if that
// were known: what was seen may have been a queue, which would shrink, or the work.
func TestWhatIsAGuess(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		seen  map[int]time.Duration
		n     int
		want  time.Duration
		guess bool
	}{
		"seen":                                 {map[int]time.Duration{30: 20 * ms}, 30, 20 * ms, false},
		"hardly fewer":                         {map[int]time.Duration{30: 20 * ms}, 27, 18 * ms, false},
		"far fewer":                            {map[int]time.Duration{30: 20 * ms}, 5, 20 * ms * 5 / 30, true},
		"far fewer, and no queue with more":    {map[int]time.Duration{16: 20 * ms, 40: 20 * ms}, 4, 20 * ms, false},
		"far fewer, and a queue with more":     {map[int]time.Duration{16: 20 * ms, 40: 50 * ms}, 4, 5 * ms, true},
		"far more":                             {map[int]time.Duration{16: 20 * ms}, 64, 80 * ms, true},
		"between two that were seen far apart": {map[int]time.Duration{2: 20 * ms, 40: 50 * ms}, 10, 20 * ms, false},
	} {
		latency, guess := shadow.DrawFrom(tc.seen, tc.n)
		if d := latency - tc.want; d < -ms || d > ms || guess != tc.guess {
			t.Errorf("%s: %d in flight take %v, a guess: %v; want %v, %v", name, tc.n, latency, guess, tc.want, tc.guess)
		}
	}
}
