package limiter_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// yard plays a gate in virtual time: sources offer requests at random, each permit
// is held for as long as its source says, and nobody sleeps.
type simGate struct {
	clock  *stoppedClock
	gate   *limiter.Gate
	rand   *rand.Rand
	events dueQueue
	tally  map[string]*causeTotal // by source
	each   func(now time.Duration)

	workers, busy int // of the backend; no workers = as many as are needed
	backlog       []func()
}

// source offers requests: open, at a rate, or closed, by clients that come back
// when they have been answered.
type source struct {
	name    string
	req     limiter.Request
	rate    float64       // per second; 0 = closed
	clients int           // of a closed source
	pause   time.Duration // of a client between an answer and its next request
	backoff time.Duration // of a client that was refused
	hold    time.Duration
	from    time.Duration // when it begins
	until   time.Duration // when it ends; 0 = never
	end     int64
}

// fate is what became of a source's requests.
type causeTotal struct {
	offered, served, shed, refused int
	worst                          time.Duration // from the offer to the end
	took                           []time.Duration
}

// String says all but how long each took.
func (f causeTotal) String() string {
	return fmt.Sprintf("%d offered, %d served, %d refused, %d of these shed, %v at worst", f.offered, f.served, f.refused, f.shed, f.worst)
}

type due struct {
	at   int64
	do   func()
	rank int
}

type dueQueue []due

func (e dueQueue) Len() int { return len(e) }
func (e dueQueue) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].rank < e[j].rank
}
func (e dueQueue) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *dueQueue) Push(x any)   { *e = append(*e, x.(due)) }
func (e *dueQueue) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newSimGate(policy *limiter.Policy, seed uint64) *simGate {
	y := &simGate{clock: &stoppedClock{}, rand: rand.New(rand.NewPCG(seed, 1)), tally: map[string]*causeTotal{}}
	y.clock.now.Store(int64(time.Second))
	y.gate = limiter.New("yard", policy, limiter.Options{Clock: y.clock, Rand: y.rand.Uint64})
	return y
}

// after has something done later.
func (y *simGate) after(d time.Duration, do func()) {
	heap.Push(&y.events, due{at: y.clock.Now() + int64(d), do: do, rank: len(y.events)})
}

// play runs the sources for a time.
func (y *simGate) play(length time.Duration, sources ...source) map[string]*causeTotal {
	start := y.clock.Now()
	for _, s := range sources {
		if s.until > 0 {
			s.end = start + int64(s.until)
		}
		if y.tally[s.name] == nil {
			y.tally[s.name] = &causeTotal{}
		}
		n := max(s.clients, 1)
		for range n {
			y.after(s.from+time.Duration(y.rand.Float64()*float64(s.hold)), func() { y.arrive(&s) })
		}
	}
	if y.each != nil {
		var tick func()
		tick = func() {
			y.each(time.Duration(y.clock.Now() - start))
			y.after(100*time.Millisecond, tick)
		}
		y.after(0, tick)
	}
	for len(y.events) > 0 && y.events[0].at <= start+int64(length) {
		e := heap.Pop(&y.events).(due)
		y.clock.now.Store(max(e.at, y.clock.Now()))
		e.do()
	}
	return y.tally
}

// arrive offers one request, and the next one of an open source.
func (y *simGate) arrive(s *source) {
	if s.end > 0 && y.clock.Now() >= s.end {
		return
	}
	if s.rate > 0 {
		y.after(time.Duration(y.rand.ExpFloat64()/s.rate*1e9), func() { y.arrive(s) })
	}
	o, began := y.tally[s.name], y.clock.Now()
	o.offered++
	permit, ticket, err := y.gate.Offer(began, s.req)
	y.wait(s, o, began, permit, ticket, err)
}

// wait follows a request until its end.
func (y *simGate) wait(s *source, o *causeTotal, began int64, permit limiter.Permit, ticket *limiter.Ticket, err error) {
	if ticket != nil {
		p, next, done, err := ticket.Step(y.clock.Now())
		if done {
			y.wait(s, o, began, p, nil, err)
			return
		}
		settled := false
		again := func() {
			if !settled {
				settled = true
				y.wait(s, o, began, limiter.Permit{}, ticket, nil)
			}
		}
		ticket.Notify(func() { y.after(0, again) })
		y.after(time.Duration(next-y.clock.Now()), again)
		return
	}
	if err != nil {
		rej := err.(*limiter.Rejection) //nolint:errorlint,forcetypeassert // the gate returns it bare
		if o.refused++; rej.Reason == labels.Shed {
			o.shed++
		}
		if s.rate == 0 {
			y.after(s.backoff+time.Microsecond, func() { y.arrive(s) })
		}
		return
	}
	y.work(y.holds(s), func() {
		permit.End(limiter.Success)
		o.served++
		o.took = append(o.took, time.Duration(y.clock.Now()-began))
		o.worst = max(o.worst, time.Duration(y.clock.Now()-began))
		y.back(s)
	})
}

// work has something done when the backend has worked for so long, for which it
// may have to wait for a worker.
func (y *simGate) work(d time.Duration, do func()) {
	if y.workers == 0 {
		y.after(d, do)
		return
	}
	if y.busy >= y.workers {
		y.backlog = append(y.backlog, func() { y.work(d, do) })
		return
	}
	y.busy++
	y.after(d, func() {
		y.busy--
		do()
		if len(y.backlog) > 0 {
			next := y.backlog[0]
			y.backlog = y.backlog[1:]
			next()
		}
	})
}

// holds draws how long a permit is held.
func (y *simGate) holds(s *source) time.Duration {
	return max(time.Duration(y.rand.ExpFloat64()*float64(s.hold)), time.Microsecond)
}

// back has a client of a closed source ask again.
func (y *simGate) back(s *source) {
	if s.rate == 0 {
		y.after(s.pause+time.Microsecond, func() { y.arrive(s) })
	}
}
