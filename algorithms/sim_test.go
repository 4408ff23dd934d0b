package algorithms_test

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/admitd/admitd/algorithms"
)

// backend is the model that the limits are judged on: workers with exponential
// service and one FIFO queue, in virtual time, arrivals open loop.
type backend struct {
	workers  int
	service  time.Duration                        // mean
	slowdown float64                              // per request inside beyond workers
	rate     func(at time.Duration) float64       // arrivals per second
	slower   func(at time.Duration) float64       // factor on service
	delay    func(at time.Duration) time.Duration // added to latency, outside the workers
	timeout  time.Duration
	warm     time.Duration // counted from here
	until    time.Duration
}

// tally is what clients saw between warm and until.
type tally struct {
	offered, refused, answered, late int
	low, high                        int
	worst                            time.Duration
}

func (r tally) goodput() float64  { return float64(r.answered) / float64(r.offered) }
func (r tally) refusals() float64 { return float64(r.refused) / float64(r.offered) }

type event struct {
	at       time.Duration
	start    time.Duration // 0 with arrival set
	inFlight int
	kind     int // 0 arrival, 1 served, 2 back at the gate
}

type agenda []event

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

// run drives lim, with everything random from seed.
func (b backend) run(lim algorithms.Limit, seed uint64) tally {
	random := rand.New(rand.NewPCG(seed, 7))
	var (
		todo     agenda
		queue    []event
		busy     int
		inFlight int
		out      = tally{low: 1 << 30}
	)
	exp := func(mean float64) time.Duration { return time.Duration(random.ExpFloat64() * mean) }
	serve := func(at time.Duration, e event) {
		busy++
		inside := busy + len(queue)
		mean := float64(b.service) * (1 + b.slowdown*float64(max(0, inside-b.workers)))
		if b.slower != nil {
			mean *= b.slower(at)
		}
		e.at, e.kind = at+exp(mean), 1
		heap.Push(&todo, e)
	}
	heap.Push(&todo, event{at: 1})
	for {
		e := heap.Pop(&todo).(event)
		now := e.at
		if now > b.until {
			return out
		}
		counts := now >= b.warm
		switch e.kind {
		case 0:
			heap.Push(&todo, event{at: now + exp(1e9/b.rate(now))})
			if counts {
				out.offered++
				out.low, out.high = min(out.low, lim.Current()), max(out.high, lim.Current())
			}
			if inFlight >= lim.Current() {
				if counts {
					out.refused++
				}
				continue
			}
			inFlight++
			r := event{start: now, inFlight: inFlight}
			if busy < b.workers {
				serve(now, r)
			} else {
				queue = append(queue, r)
			}
		case 1:
			busy--
			if len(queue) > 0 {
				next := queue[0]
				queue = queue[1:]
				serve(now, next)
			}
			if b.delay != nil {
				e.at += b.delay(now)
			}
			e.kind = 2
			heap.Push(&todo, e)
		case 2:
			inFlight--
			latency := now - e.start
			lim.Observe(int64(now), latency, e.inFlight, latency > b.timeout)
			if counts {
				out.worst = max(out.worst, latency)
				if latency <= b.timeout {
					out.answered++
				} else {
					out.late++
				}
			}
		}
	}
}
