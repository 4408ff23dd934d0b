package limiter_test

import (
	"strconv"
	"testing"

	"github.com/admitd/admitd/limiter"
)

// The load is what the status says, told without its price: anyone may ask a
// gate for it, and a gate may have many partitions.
func TestLoad(t *testing.T) {
	for _, total := range []int{0, 50} {
		g := limiter.New("g", &limiter.Policy{
			Total:   total,
			Default: limiter.PartitionPolicy{NewLimit: newFixed(3)},
			Named:   []limiter.PartitionPolicy{{Name: "a", NewLimit: newFixed(7)}},
		}, limiter.Options{})
		for i := range 300 { // some before and some after a merge of the table
			p, err := g.TryAdmit(g.Now(), limiter.Request{Key: strconv.Itoa(i)})
			if err == nil && i%100 == 0 {
				defer p.End(limiter.Ignored)
			} else {
				p.End(limiter.Ignored)
			}
		}
		want := int64(7 + 3*302)
		if total > 0 {
			want = int64(total)
		}
		if held, limit := g.Load(); held != 3 || limit != want || held != int64(g.Status().InFlight) {
			t.Errorf("Load() = %d, %d; want 3 and %d", held, limit, want)
		}
		if n := testing.AllocsPerRun(100, func() { g.Load() }); n != 0 {
			t.Errorf("Load allocates %v times; want 0", n)
		}
	}
}
