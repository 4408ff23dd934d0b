package lab

import (
	"math/rand/v2"
	"time"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/eventqueue"
	"github.com/admitd/admitd/limiter"
)

// World is virtual time: a clock and the events that are still to come. It is
// driven by one goroutine and is not safe for concurrent use.
type World struct {
	now    int64 // virtual ns since the start of the run
	events eventqueue.Queue[func()]

	// Separate streams, so that every contender meets the same arrivals.
	arrivals, service, gates *rand.Rand

	fault  *clock.Fault   // of the gates' clocks; nil = none
	tracer limiter.Tracer // of the gates; nil = nobody
	group  group          // of the gates that share a limit

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
	w.events.Add(max(at, w.now), f)
}

// run plays events until the given time, which is reached in any case.
func (w *World) run(until time.Duration) {
	for at, ok := w.events.Next(); ok && at <= int64(until); at, ok = w.events.Next() {
		at, play := w.events.Take()
		w.step(at)
		play()
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
