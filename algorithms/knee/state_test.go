package knee_test

import (
	"math"
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
