package lab

import (
	"math/rand/v2"
	"time"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/limiter"
)

// World is virtual time: a clock and the events that are still to come. It is
// driven by one goroutine and is not safe for concurrent use.
type World struct {
	now    int64 // virtual ns since the start of the run
	seq    uint64
	events events

	// Separate streams, so that every contender meets the same arrivals.
	arrivals, service, gates *rand.Rand

	fault  *clock.Fault   // of the gates' clocks; nil = none
	tracer limiter.Tracer // of the gates; nil = nobody

	// advance, when not nil, is told of every step of time before it is made.
	// A run inside a synctest bubble sleeps it, so that code that reads the
	// time package sees virtual time too.
	advance func(time.Duration)
}

// newWorld returns a world at time zero.
func newWorld(seed uint64) *World {
	return &World{arrivals: random(seed, 1), service: random(seed, 2), gates: random(seed, 3)}
}

// Now returns virtual nanoseconds since the start of the run.
func (w *World) Now() int64 { return w.now }

// Rand returns uniform 64-bit values for a door, the same ones in every run of a
// seed. Arrivals and service times have streams of their own.
func (w *World) Rand() uint64 { return w.gates.Uint64() }

// After plays f once d has passed; at once, after what is already due, when d
// is not positive.
func (w *World) After(d time.Duration, f func()) { w.At(w.now+int64(max(d, 0)), f) }

// At plays f at the given virtual time. Events of one instant are played in the
// order in which they were asked for.
func (w *World) At(at int64, f func()) {
	w.seq++
	w.events.push(event{at: max(at, w.now), seq: w.seq, play: f})
}

// run plays events until the given time, which is reached in any case.
func (w *World) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= int64(until) {
		e := w.events.pop()
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

// event is something that happens at a time.
type event struct {
	at   int64
	seq  uint64
	play func()
}

// events is a heap, earliest first: container/heap would allocate for each.
type events []event

// before reports whether event i is played before event j.
func (e events) before(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

// push adds an event.
func (e *events) push(x event) {
	*e = append(*e, x)
	h := *e
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(i, parent) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// pop removes the earliest event.
func (e *events) pop() event {
	h := *e
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	*e = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			return first
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
