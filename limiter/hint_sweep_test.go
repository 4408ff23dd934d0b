package limiter_test

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// cell is a gate and its closed-loop clients: each sends its next request as
// soon as the last one is over, as drivers do for an application that waits for
// nothing. A refused request is tried three times, with the backoff of released
// drivers, whose base the gate may set.
type cell struct {
	rate, burst float64 // per second, and seconds; 0 = the permits are what is short
	permits     int
	service     time.Duration // that a permit is held, on average
	clients     int
	deadline    time.Duration // of an operation; 0 = none
	once        bool          // every client has one operation
	base        time.Duration // of the clients' backoff, whatever the gate says; 0 = the gate's
}

// loop is a cell that is played in virtual time.
type loop struct {
	cell
	clock         stoppedClock
	rand          *rand.Rand
	gate          *limiter.Gate
	events        events
	from          int64 // when counting begins
	good, failed  int
	took          []time.Duration // by the good ones
	sequence, end int64
}

// gap is the mean time between an answer and the client's next request.
const gap = time.Millisecond

// capacity is what the gate can admit per second.
func (c cell) capacity() float64 {
	if c.rate > 0 {
		return c.rate
	}
	return float64(c.permits) / (c.service + gap).Seconds()
}

// drain is the time that one operation of every client needs.
func (c cell) drain() time.Duration {
	return time.Duration(float64(c.clients) / c.capacity() * 1e9)
}

// outcome is what the clients saw.
type outcome struct {
	used   float64       // share of the capacity
	failed float64       // share of the operations
	p99    time.Duration // of those that did not fail
}

func (o outcome) String() string {
	return fmt.Sprintf("%3.0f %% used, %4.1f %% failed, p99 %v", 100*o.used, 100*o.failed, o.p99.Round(time.Millisecond))
}

// run plays the loop and returns what its clients saw after the start.
func (c cell) run() outcome {
	l := &loop{cell: c}
	l.rand = rand.New(rand.NewPCG(1, 2))
	l.clock.now.Store(int64(time.Hour))
	l.gate = limiter.New("loop", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: l.rate, BurstSeconds: l.burst},
		Default: limiter.PartitionPolicy{NewLimit: newFixed(cmpOr(l.permits, 100_000))},
	}, limiter.Options{Clock: &l.clock, Rand: l.rand.Uint64})
	l.from = int64(time.Hour + max(10*time.Second, 5*l.drain()))
	span := max(3*time.Second, 12*l.drain(), time.Duration(3000/l.capacity()*1e9))
	l.end = l.from + int64(span)
	if l.once {
		l.from, l.end = 0, 2*l.end
	}
	for range l.clients {
		l.after(time.Duration(l.rand.Int64N(int64(50*time.Millisecond))), l.begin)
	}
	for len(l.events) > 0 && l.events[0].at <= l.end {
		e, _ := heap.Pop(&l.events).(event)
		l.clock.now.Store(e.at)
		e.play()
	}
	slices.Sort(l.took)
	o := outcome{used: float64(l.good) / span.Seconds() / l.capacity(), failed: float64(l.failed) / math.Max(1, float64(l.good+l.failed))}
	if l.good > 0 {
		o.p99 = l.took[(len(l.took)-1)*99/100]
	}
	return o
}

func (l *loop) begin() { l.attempt(l.clock.Now(), 1) }

// next begins the next operation after a gap.
func (l *loop) next() { l.after(time.Duration(2*l.rand.Float64()*float64(gap)), l.begin) }

// attempt is the nth one of the operation that began then.
func (l *loop) attempt(began int64, n int) {
	now := l.clock.Now()
	req := limiter.Request{MaxWait: -1}
	if l.deadline > 0 {
		req.Deadline = time.Duration(began-now) + l.deadline
	}
	p, err := l.gate.TryAdmit(now, req)
	if err == nil {
		l.after(time.Duration((0.5+l.rand.Float64())*float64(l.service)), func() {
			p.End(limiter.Success)
			l.done(began, true)
		})
		return
	}
	base := l.base
	if rej, ok := errors.AsType[*limiter.Rejection](err); ok && base == 0 {
		base = rej.Hint(req).BaseBackoff
	}
	wait := time.Duration(l.rand.Float64() * float64(min(10*time.Second, base<<n)))
	if n == 3 || l.deadline > 0 && wait >= req.Deadline {
		l.done(began, false)
		return
	}
	l.after(wait, func() { l.attempt(began, n+1) })
}

// done ends an operation.
func (l *loop) done(began int64, good bool) {
	if !l.once {
		l.next()
	}
	if now := l.clock.Now(); now < l.from {
		return
	} else if good {
		l.good++
		l.took = append(l.took, time.Duration(now-began))
	} else {
		l.failed++
	}
}

// after plays f once d has passed.
func (l *loop) after(d time.Duration, f func()) {
	l.sequence++
	heap.Push(&l.events, event{l.clock.Now() + int64(d), l.sequence, f})
}

// event is something that happens at a time; those of one instant in turn.
type event struct {
	at, turn int64
	play     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].turn < e[j].turn
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// possible reports whether three attempts with one doubled base can keep the
// capacity in use and the failures at 2 %. A bucket that is full after few
// tokens cannot be kept busy by clients that come at random, unless they come
// so often that they find it empty; and the base has a ceiling.
func (c cell) possible() bool {
	if c.deadline > 0 {
		return false // its quarter decides
	}
	if c.rate > 0 {
		return c.rate*c.burst >= 10 && c.drain() < 1500*time.Millisecond
	}
	return time.Duration(float64(c.clients-c.permits)/(0.06*c.capacity())*1e9) < 4*time.Second
}

// sweep calls f with cells that are overloaded.
func sweep(f func(c cell)) {
	short := []cell{
		{permits: 2, service: 100 * time.Millisecond},
		{permits: 10, service: 25 * time.Millisecond},
		{permits: 20, service: 10 * time.Millisecond},
	}
	for _, rate := range []float64{20, 200, 2000} {
		for _, burst := range []float64{0.1, 1} {
			short = append(short, cell{rate: rate, burst: burst, service: 2 * time.Millisecond})
		}
	}
	for _, c := range short {
		for _, c.clients = range []int{4, 32, 256} {
			for _, c.deadline = range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second} {
				if float64(c.clients)/(c.service+gap).Seconds() > 1.04*c.capacity() {
					f(c)
				}
			}
		}
	}
}

// The computed base turned failures into successes in closed loops without
// deadlines, and did harm elsewhere: with a deadline of 500 ms 82 % failed where
// 23 % did without a hint, and buckets of a short burst stood idle while
// everybody slept. The sweep holds it to both sides.
func TestHintSweep(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and much work")
	}
	t.Parallel()
	sweep(func(c cell) {
		bare := c
		bare.base = 100 * time.Millisecond
		hints, none := c.run(), bare.run()
		name := fmt.Sprintf("%v/s, burst %v s, %d permits, %d clients, deadline %v", c.rate, c.burst, c.permits, c.clients, c.deadline)
		t.Logf("%s: without %v; with %v", name, none, hints)
		if c.possible() {
			if hints.used < 0.95 || hints.failed > 0.02 {
				t.Errorf("%s: %v; want 95 %% used and at most 2 %% failed", name, hints)
			}
			if bound := max(15*c.drain(), 200*time.Millisecond); c.rate > 0 && hints.p99 > bound {
				t.Errorf("%s: %v; want a p99 of at most %v", name, hints, bound)
			}
			return
		}
		slack := 0.01
		if c.rate > 0 && c.rate*c.burst < 10 && c.deadline != 500*time.Millisecond {
			slack = 0.1 // what a bucket of so few tokens loses while clients sleep
		}
		if hints.failed > max(none.failed+slack, 0.02) || hints.used < min(none.used, 0.97)-slack-0.01 {
			t.Errorf("%s: %v; without hints it is %v", name, hints, none)
		}
	})
}

// A burst that is more than the gate admits at once comes back within a few
// times what the gate needs for it.
func TestHintBurst(t *testing.T) {
	t.Parallel()
	for _, c := range []cell{
		{rate: 20, burst: 1, clients: 32},
		{rate: 200, burst: 0.1, clients: 256},
		{rate: 200, burst: 0.1, clients: 1024},
		{rate: 2000, burst: 0.1, clients: 1024},
		{permits: 10, service: 25 * time.Millisecond, clients: 256},
		{permits: 10, service: 25 * time.Millisecond, clients: 1024},
		{permits: 20, service: 10 * time.Millisecond, clients: 1024},
	} {
		c.once, c.service = true, max(c.service, 2*time.Millisecond)
		o := c.run()
		t.Logf("%v/s, %d permits, %d at once: %.1f %% failed, p99 %v of %v", c.rate, c.permits, c.clients, 100*o.failed, o.p99, c.drain())
		if o.failed > 0.02 || o.p99 > 4*c.drain() {
			t.Errorf("%v/s, %d permits, %d at once: %v; want at most 2 %% failed and p99 at most 4 times %v",
				c.rate, c.permits, c.clients, o, c.drain())
		}
	}
}

// Few clients at a bucket with a short burst: sleeping lowered the measured
// throughput, which raised the sleep, until 18 % of the rate were used.
func TestHintKeepsShortBurstsBusy(t *testing.T) {
	t.Parallel()
	o := cell{rate: 60, burst: 0.1, clients: 4, service: 2 * time.Millisecond}.run()
	if o.used < 0.93 || o.failed > 0.03 {
		t.Errorf("%v; want the rate used and at most 3 %% failed", o)
	}
}

// cmpOr returns a, or b where a is 0.
func cmpOr(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}
