package knee_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms/knee"
	"github.com/admitd/admitd/algorithms/parts"
)

// A state that is not finite would stay so, and the limit at its lowest. It begins
// again, and says so.
func TestStateBeginsAgain(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		k, now := knee.New(knee.Options{InitialLimit: 30}), int64(1)
		work := func(dropped bool) {
			for range 1000 {
				now += int64(time.Millisecond)
				k.Observe(now, 10*time.Millisecond, 10, dropped)
			}
		}
		work(true)
		before := k.Current()
		k.Spoil(v)
		for k.Why() != parts.WhyReset && now < int64(time.Minute) {
			now += int64(time.Millisecond)
			k.Observe(now, 10*time.Millisecond, 1, false)
		}
		if k.Why() != parts.WhyReset || before >= 30 || k.Current() != 30 {
			t.Errorf("%v: why %q with a limit of %d, %d before; want reset with 30 after less", v, k.Why(), k.Current(), before)
		}
		work(false)
		if x := k.State()["throughput"]; !(x > 100) {
			t.Errorf("%v: afterwards throughput is %v", v, x)
		}
	}
}

// Why and State may be read while samples come in: the race detector watches.
func TestStateIsReadWhileItChanges(t *testing.T) {
	k := knee.New(knee.Options{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range int64(2000) {
				k.Observe(i*int64(time.Millisecond), time.Duration(1+worker)*time.Millisecond, 5, i%7 == 0)
			}
		})
	}
	for range 500 {
		if s := k.State(); s["limit"] < 1 || k.Why() != "" && !slices.Contains(parts.Whys(), k.Why()) {
			t.Errorf("limit %v, why %q", s["limit"], k.Why())
		}
	}
	wg.Wait()
}
