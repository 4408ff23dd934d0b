package observe

import "sync/atomic"

// ClockState is what the clock guard says of the clock.
type ClockState struct {
	Trusted bool
	// Pauses counts how often the machine or the process stood still.
	Pauses uint64
	// Faults counts what was found wrong, by a closed set of kinds.
	Faults map[string]uint64
}

// WatchClock exposes the state of the clock that read returns, in place of any
// other clock. read is called once per scrape, perhaps from several goroutines.
func (m *Metrics) WatchClock(read func() ClockState) { m.clock.read.Store(&read) }

// clockMetrics collects the state of the clock, once there is one to read.
type clockMetrics struct {
	read                    atomic.Pointer[func() ClockState]
	trusted, pauses, faults family
}

func newClockMetrics() *clockMetrics {
	return &clockMetrics{
		trusted: newGauge("clock_trusted", "1 while intervals that the clock measures mean something."),
		pauses:  newCounter("clock_pauses_total", "How often the machine or the process stood still."),
		faults:  newCounter("clock_faults_total", "What was found wrong with the clock."),
	}
}

// collect implements [source].
func (c *clockMetrics) collect(b *builder) {
	read := c.read.Load()
	if read == nil {
		return
	}
	s := (*read)()
	b.add(&c.trusted, number(s.Trusted))
	b.add(&c.pauses, float64(s.Pauses))
	for kind, n := range s.Faults {
		b.add(&c.faults, float64(n), pair("kind", kind))
	}
}
