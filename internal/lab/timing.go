package lab

import (
	"math/rand/v2"
	"time"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/limiter"
)

// guardTick is how often a [clock.Guard] looks at its clocks.
const guardTick = 100 * time.Millisecond

// readCost is how far a clock moves between two readings of one event.
const readCost = 25 * time.Nanosecond

// worldClock is virtual time as a gate reads it.
type worldClock struct{ w *World }

// Now implements [limiter.Clock].
func (c worldClock) Now() int64 { return c.w.now + 1 }

// Trusted implements [limiter.Clock].
func (worldClock) Trusted() bool { return true }

// Epoch implements [limiter.Clock].
func (worldClock) Epoch() uint32 { return 0 }

// gateClock returns the clock of one more gate of this world: the plain one, or
// where the scenario bends time, the daemon's own guard over bent readings.
func (w *World) gateClock() limiter.Clock {
	if w.fault == nil {
		return worldClock{w}
	}
	m := &machine{w: w}
	g := clock.New(clock.Options{Fault: w.fault, Sources: clock.Sources{
		Monotonic: m.read,
		Boottime:  func() (int64, bool) { return m.read(), true },
		Wall:      m.read,
		Source:    func() string { return "tsc" },
	}})
	var step func()
	step = func() {
		g.Step()
		m.last = 0 // looking closely took no time
		w.After(guardTick, step)
	}
	step()
	return g
}

// machine is the hardware clock of a model: it moves a little at each reading,
// as a real one does.
type machine struct {
	w    *World
	last int64
}

// read returns virtual nanoseconds.
func (m *machine) read() int64 {
	m.last = max(m.w.now, m.last+int64(readCost))
	return m.last
}

// random returns an independent stream of numbers of the same seed.
func random(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15^stream)) //nolint:gosec // a simulation wants reproducible numbers
}
