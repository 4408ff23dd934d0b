package lab

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"
)

// World is virtual time: a clock and the events that are still to come. It is
// driven by one goroutine and is not safe for concurrent use.
type World struct {
	now    int64 // virtual ns since the start of the run
	seq    uint64
	events events
	rng    *rand.Rand
	pcg    *rand.PCG

	// advance, when not nil, is told of every step of time before it is made.
	// A run inside a synctest bubble sleeps it, so that code that reads the
	// time package sees virtual time too.
	advance func(time.Duration)
}

// newWorld returns a world at time zero.
func newWorld(seed uint64) *World {
	pcg := rand.NewPCG(seed, 0x9e3779b97f4a7c15)
	return &World{rng: rand.New(pcg), pcg: pcg} //nolint:gosec // a simulation wants reproducible numbers
}

// Now returns virtual nanoseconds since the start of the run.
func (w *World) Now() int64 { return w.now }

// Elapsed returns the virtual time since the start of the run.
func (w *World) Elapsed() time.Duration { return time.Duration(w.now) }

// Rand returns uniform 64-bit values, the same ones in every run of a seed.
func (w *World) Rand() uint64 { return w.rng.Uint64() }

// Uniform returns a uniform value in [0, 1).
func (w *World) Uniform() float64 { return w.rng.Float64() }

// After plays f once d has passed; at once, after what is already due, when d
// is not positive.
func (w *World) After(d time.Duration, f func()) { w.At(w.now+int64(max(d, 0)), f) }

// At plays f at the given virtual time. Events of one instant are played in the
// order in which they were asked for.
func (w *World) At(at int64, f func()) {
	w.seq++
	heap.Push(&w.events, event{at: max(at, w.now), seq: w.seq, play: f})
}

// run plays events until the given time, which is reached in any case.
func (w *World) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= int64(until) {
		e := heap.Pop(&w.events).(event) //nolint:errcheck,forcetypeassert // the heap holds nothing else
		w.step(e.at)
		e.play()
	}
	w.step(int64(until))
}

// step moves the clock.
func (w *World) step(to int64) {
	if w.advance != nil && to > w.now {
		w.advance(time.Duration(to - w.now))
	}
	w.now = to
}

// exponential returns a sample of the exponential distribution.
func (w *World) exponential(mean float64) float64 { return mean * w.rng.ExpFloat64() }

// lognormal returns a sample whose mean is mean and whose logarithm deviates by
// sigma.
func (w *World) lognormal(mean, sigma float64) float64 {
	return mean * math.Exp(sigma*w.rng.NormFloat64()-sigma*sigma/2)
}

// event is something that happens at a time.
type event struct {
	at   int64
	seq  uint64
	play func()
}

// events is a heap, earliest first.
type events []event

// Len implements [heap.Interface].
func (e events) Len() int { return len(e) }

// Less implements [heap.Interface].
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

// Swap implements [heap.Interface].
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements [heap.Interface].
func (e *events) Push(x any) { *e = append(*e, x.(event)) } //nolint:errcheck,forcetypeassert // see run

// Pop implements [heap.Interface].
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}
