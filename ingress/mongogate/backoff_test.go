package mongogate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/ingress/mongogate"
)

// Slots lie as far apart as 4 % of the throughput allows, are never nearer
// than a driver's own base nor farther than 3 s, and free up as time passes.
func TestBackoffSlots(t *testing.T) {
	const ms = time.Millisecond
	cases := map[string]struct {
		at       []time.Duration
		admitted []int64
		want     []time.Duration
	}{
		"unknown throughput": { // 1,000/s assumed: 25 ms apart
			[]time.Duration{0, 0, 0, 0, 0, 0},
			make([]int64, 6),
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 125 * ms, 150 * ms},
		},
		"measured": { // 500 in a second: 50 ms apart
			[]time.Duration{0, time.Second, time.Second, time.Second, time.Second},
			[]int64{0, 500, 500, 500, 500},
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 150 * ms, 200 * ms},
		},
		"bounded": { // 1/s: 25 s apart
			[]time.Duration{0, time.Second, time.Second},
			[]int64{0, 1, 1},
			[]time.Duration{100 * ms, 3 * time.Second, 3 * time.Second},
		},
		"slots pass": {
			[]time.Duration{0, time.Second, time.Second, time.Second, time.Second, 1100 * ms},
			[]int64{0, 500, 500, 500, 500, 550},
			[]time.Duration{100 * ms, 100 * ms, 100 * ms, 150 * ms, 200 * ms, 150 * ms},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, mongogate.Slots(tc.at, tc.admitted)); d != "" {
				t.Errorf("slots (-want +got):\n%s", d)
			}
		})
	}
}
