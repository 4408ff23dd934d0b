package observe

import (
	"sync"
	"time"
)

// The results of a reload, as metrics name them.
const (
	reloadOK      = "success"
	reloadRefused = "refused"
)

// Reloaded notes that a configuration was read at the given time, and whether
// it was put in force. The first one, at the start, counts too.
func (m *Metrics) Reloaded(ok bool, at time.Time) { m.config.reloaded(ok, at) }

// RestartPending notes how many sections of the configuration on disk take effect
// after a restart only.
func (m *Metrics) RestartPending(sections int) { m.config.awaits(sections) }

// configMetrics collects how the configuration and its reloads are.
type configMetrics struct {
	successful, timestamp, pending, reloads family

	mu          sync.Mutex // guards the fields below
	lastOK      bool
	lastSuccess time.Time
	waiting     int
	counts      map[string]uint64
}

func newConfigMetrics() *configMetrics {
	return &configMetrics{
		successful: newGauge("config_last_reload_successful", "1 when the last configuration that was read is in force."),
		timestamp:  newGauge("config_last_reload_success_timestamp_seconds", "When a configuration was last put in force, in seconds since 1970."),
		pending:    newGauge("config_restart_pending", "Sections of the configuration on disk that take effect after a restart only, and differ from what is in force."),
		reloads:    newCounter("config_reloads_total", "Configurations that were read, by what became of them."),
		counts:     map[string]uint64{reloadOK: 0, reloadRefused: 0},
	}
}

func (c *configMetrics) reloaded(ok bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastOK = ok
	if ok {
		c.lastSuccess = at
		c.counts[reloadOK]++
	} else {
		c.counts[reloadRefused]++
	}
}

func (c *configMetrics) awaits(sections int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = sections
}

// collect implements [source].
func (c *configMetrics) collect(b *builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.add(&c.successful, number(c.lastOK))
	at := 0.0 // never
	if !c.lastSuccess.IsZero() {
		at = float64(c.lastSuccess.UnixMilli()) / 1e3
	}
	b.add(&c.timestamp, at)
	b.add(&c.pending, float64(c.waiting))
	for result, n := range c.counts {
		b.add(&c.reloads, float64(n), pair("result", result))
	}
}
