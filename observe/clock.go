package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

// ClockState is what the clock guard says of the clock.
type ClockState struct {
	Trusted bool
	// Changes counts how often trust was lost since the start.
	Changes uint64
	// Pauses counts how often the machine or the process stood still.
	Pauses uint64
	// Faults counts what was found wrong, by a closed set of kinds.
	Faults map[string]uint64
}

// WatchClock exposes the state of the clock that read returns. Call it once.
func (m *Metrics) WatchClock(read func() ClockState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clock {
		panic("observe: WatchClock called twice")
	}
	m.clock = true
	m.registry.MustRegister(newClockCollector(read))
}

type clockCollector struct {
	read                             func() ClockState
	trusted, changes, pauses, faults family
}

func newClockCollector(read func() ClockState) *clockCollector {
	return &clockCollector{
		read:    read,
		trusted: newGauge("clock_trusted", "1 while intervals that the clock measures mean something."),
		changes: newCounter("clock_trust_lost_total", "How often the clock ceased to be trusted."),
		pauses:  newCounter("clock_pauses_total", "How often the machine or the process stood still."),
		faults:  newCounter("clock_faults_total", "What was found wrong with the clock.", "kind"),
	}
}

// Describe implements prometheus.Collector.
func (c *clockCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []family{c.trusted, c.changes, c.pauses, c.faults} {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *clockCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	c.trusted.send(ch, number(s.Trusted))
	c.changes.send(ch, float64(s.Changes))
	c.pauses.send(ch, float64(s.Pauses))
	for kind, n := range s.Faults {
		c.faults.send(ch, float64(n), pair("kind", kind))
	}
}
