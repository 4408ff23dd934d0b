package knee

import (
	"math"
	"time"
)

const leastQueue = 40

// known is what the windows have told of the backend, of those who ask and of other
// gates: what a limit is computed from, whatever it is now.
type known struct {
	refused float64 // share of the demand, smoothed over half a second
	lasting float64 // and over five, or 100 latencies
	base    baseline
	flow    flow
	episode overload
	callers callers
	others  otherGates
}

// learn takes a window that refused next to nothing, and ends an episode of
// overload. What was at work without a queue is not known where there are others,
// and a baseline that comes from a drain of all is not learned from what each sees.
func (k *known) learn(o Options, w *window) {
	if !k.others.proven && w.steady() {
		k.base.learn(w, k.flow.rate, o.Gates > 1 || o.Others)
	}
	k.flow.learn(w)
	k.episode.fresh = true
	if k.base.sure() && !o.Others {
		k.flow.remember(w, k.base.mean)
	}
}

// burst reports that requests were refused while half of the permits were idle
// on average, by Little's law, and either no less was served than before or
// nothing waited: they came together, and they are no overload.
func (k *known) burst(w *window, limit float64) bool {
	return w.latency/w.elapsed < 0.5*limit && (w.rate() > 0.7*k.flow.before || w.mean() < 1.5*k.base.mean)
}

// begin opens an episode: where the baseline is known, what could not be served
// is known as well, and there is nothing to smooth.
func (k *known) begin(o Options, share float64) {
	if !k.episode.fresh {
		return
	}
	k.episode.fresh = false
	if k.base.sure() {
		k.refused = share
	}
	k.episode.await(k.queue(o))
}

// queue is how many may wait behind those at work.
func (k *known) queue(o Options) float64 {
	q := k.room(o)
	if t := k.callers.wait(o); t > 0 {
		q = math.Min(q, math.Max(1, k.flow.rate*(t/2-k.base.mean)))
	}
	return q
}

// mostQueue is how many may wait before so many at work, whatever is refused: what is
// worked off in five seconds or in five latencies and ten more; and in three latencies,
// and three more, where a twentieth has been refused for some time, so that a longer
// one only makes answers late.
func (k *known) mostQueue(busy float64) float64 {
	calm := math.Min(1, math.Max(0, (0.05-k.lasting)/0.02))
	long := math.Max(5*busy+10, k.flow.rate*float64(5*time.Second))
	return calm*math.Min(leastQueue, long) + 3*busy + 3
}

// room is the queue that the refused share asks for.
func (k *known) room(o Options) float64 {
	n := float64(o.Gates)
	busy := n * k.flow.rate * k.base.mean
	q := math.Max(leastQueue, 3*math.Sqrt(busy))
	q = math.Min(q, k.mostQueue(math.Max(busy, n*k.flow.work)))
	if o.Queued {
		q = math.Min(q, 3+busy/4)
	}
	if o.Others && k.base.sure() {
		q = math.Min(q, k.others.queue(k.base.mean))
	}
	if k.refused > 0 {
		q = math.Min(q, 3/-math.Log1p(-math.Min(k.refused, 0.8))+0.07*busy)
	}
	return q / n
}
