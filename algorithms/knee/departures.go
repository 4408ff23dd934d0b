package knee

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

// departures counts the callers that left, by their age.
type departures struct {
	younger, older, youngest atomic.Int64
	patience, base           atomic.Int64
}

// left is the departures of a window.
type windowDepartures struct {
	younger, older int     // than what is known of their patience
	youngest       float64 // age in ns
}

func (d *departures) listen(patience, base float64) {
	d.patience.Store(int64(patience))
	d.base.Store(int64(base))
}

func (d *departures) drain() windowDepartures {
	return windowDepartures{int(d.younger.Swap(0)), int(d.older.Swap(0)), float64(d.youngest.Swap(0))}
}

// Left is told of a caller that went away at now, at the given age of its
// permit, while the backend goes on. A caller that left before the backend could
// have answered had no patience to teach.
func (k *Limit) Left(_ int64, age time.Duration, _ int) {
	d := &k.departures
	if base := d.base.Load(); base == 0 || int64(age) < base {
		return
	}
	for {
		youngest := d.youngest.Load()
		if youngest != 0 && youngest <= int64(age) || d.youngest.CompareAndSwap(youngest, int64(age)) {
			break
		}
	}
	if int64(age) < d.patience.Load() {
		d.younger.Add(1)
	} else {
		d.older.Add(1)
	}
}

// callers is what is known of them.
type callers struct {
	patience float64 // ns; 0 = nobody has left
}

// wait is the time that callers are known to wait, or that is promised to them; 0 =
// unknown.
func (c *callers) wait(o Options) float64 {
	t := float64(o.Objective)
	if t == 0 || c.patience > 0 && c.patience < t {
		t = c.patience
	}
	return t
}

// learn follows the age that a tenth of those who leave have not reached, and
// forgets it in minutes.
func (c *callers) learn(w *window) {
	n := float64(w.left.younger + w.left.older)
	switch {
	case n == 0 || n < 0.01*w.count():
		c.patience /= fade(w.elapsed, 60e9)
	case c.patience == 0:
		c.patience = w.left.youngest
	default:
		c.patience *= math.Exp(math.Min(0.2, math.Max(-0.2, 0.05*(0.1*n-float64(w.left.younger)))))
	}
	if c.patience > float64(parts.MaxLatency) {
		c.patience = 0
	}
}
