package algorithms_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms"
)

// A slow time is over, and its average says for 600 samples that everything is
// far better than usual: the limit would not notice when it gets worse again.
func TestGradient2ForgetsASlowTime(t *testing.T) {
	g := algorithms.NewGradient2(algorithms.Gradient2Options{})
	for range 20 {
		g.OnSample(0, int64(100*time.Millisecond), 20, false)
	}
	for range 20 {
		g.OnSample(0, int64(10*time.Millisecond), 20, false)
	}
	// Without forgetting it would be 94 ms.
	if base := g.BaseRTT(); base > 40*time.Millisecond {
		t.Errorf("after 20 samples of a tenth the average is still %v; want less than half", base)
	}
}
