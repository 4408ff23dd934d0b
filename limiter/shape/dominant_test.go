package shape_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/limiter/shape"
)

// Who takes most of the time is capped where a request of theirs takes twice what others
// take, and not for being asked often: for them the limit is there.
func TestDominantCostsMore(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		took   time.Duration // by a request of the suspect; others take 10 ms
		asked  int           // for each one of the others
		capped bool
	}{
		"asked often, costs the same":     {10 * ms, 20, false},
		"asked often, costs half as much": {15 * ms, 20, false},
		"costs three times as much":       {30 * ms, 2, true},
		"costs much, asked seldom":        {9 * ms, 1, false},
	} {
		var table shape.Table
		table.Apply(10)
		find := func(hash uint64, name string) *shape.Shape {
			return table.Find(hash, func() string { return name }, func() int64 { return 0 })
		}
		suspect, other := find(1, "suspect"), find(2, "other")
		var c shape.Dominant
		now := int64(time.Second)
		for range 100 {
			for range tc.asked {
				now += int64(5 * ms)
				c.Ended(now, suspect, tc.took, 10)
			}
			now += int64(5 * ms)
			c.Ended(now, other, 10*ms, 10)
			c.Unroomed(other)
		}
		if _, capped := c.Granted(suspect); capped != tc.capped {
			t.Errorf("%s: capped %v; want %v", name, capped, tc.capped)
		}
		if _, capped := c.Granted(other); capped {
			t.Errorf("%s: the other one is capped", name)
		}
	}
}
