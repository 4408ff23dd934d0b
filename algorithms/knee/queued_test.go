package knee_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/admitd/admitd/algorithms/knee"
)

// ends are the requests at a backend by when they end.
type ends []request

type request struct {
	granted, end int64
	held         int
}

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].end < e[j].end }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(request)) } //nolint:forcetypeassert // the heap's own
func (e *ends) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// Where requests wait for permits in a queue of the gate next to none is refused. The
// limit took what its own requests waited for at the backend, such as row locks, for
// what the backend needs, and grew with it.
func TestQueuedBacklogIsNoBaseline(t *testing.T) {
	const workers, takes = 4, 5 * time.Millisecond
	run := func(queued bool) (mean, rate float64) {
		rnd := rand.New(rand.NewPCG(3, 4))
		k := knee.New(knee.Options{Queued: queued, Objective: 500 * time.Millisecond})
		var now int64
		var granted uint64
		k.Watch(func() (offered, refused uint64) { return granted, 0 })
		var out ends
		free := make([]int64, workers) // when each worker is free
		sum, done := 0.0, 0
		const lasts = int64(60 * time.Second)
		for now < lasts {
			for len(out) < k.Current() { // there is always somebody who waits
				first := 0
				for i := range free {
					if free[i] < free[first] {
						first = i
					}
				}
				free[first] = max(now, free[first]) + int64(rnd.ExpFloat64()*float64(takes))
				heap.Push(&out, request{now, free[first], len(out) + 1})
				granted++
			}
			r := heap.Pop(&out).(request) //nolint:forcetypeassert // the heap's own
			now = r.end
			k.Observe(now, time.Duration(max(now-r.granted, 1)), r.held, false)
			if now > lasts/3 {
				sum, done = sum+float64(len(out)), done+1
			}
		}
		return sum / float64(done), float64(done) / (float64(lasts) * 2 / 3 / 1e9)
	}
	if mean, rate := run(true); mean > 8*workers || rate < 0.9*workers/takes.Seconds() {
		t.Errorf("%.0f are at a backend of %d workers, which serves %.0f/s; want %d at most, and %.0f/s at least", mean, workers, rate, 8*workers, 0.9*workers/takes.Seconds())
	}
	if mean, _ := run(false); mean < 10*workers {
		t.Errorf("%.0f are at the backend where nobody says that requests wait; the test shows nothing", mean)
	}
}
