package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The results of a reload, as metrics name them.
const (
	reloadOK      = "success"
	reloadRefused = "refused"
)

// Reloaded notes that a configuration was read at the given time, and whether
// it was put in force. The first one, at the start, counts too.
func (m *Metrics) Reloaded(ok bool, at time.Time) { m.config.reloaded(ok, at) }

// configMetrics collects how the configuration and its reloads are.
type configMetrics struct {
	successful, timestamp, reloads family

	mu          sync.Mutex // guards the fields below
	lastOK      bool
	lastSuccess time.Time
	counts      map[string]uint64
}

func newConfigMetrics() *configMetrics {
	return &configMetrics{
		successful: newGauge("config_last_reload_successful", "1 when the last configuration that was read is in force."),
		timestamp:  newGauge("config_last_reload_success_timestamp_seconds", "When a configuration was last put in force, in seconds since 1970."),
		reloads:    newCounter("config_reloads_total", "Configurations that were read, by what became of them.", "result"),
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

// Describe implements prometheus.Collector.
func (c *configMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []family{c.successful, c.timestamp, c.reloads} {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *configMetrics) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.successful.send(ch, number(c.lastOK))
	at := 0.0 // never
	if !c.lastSuccess.IsZero() {
		at = float64(c.lastSuccess.UnixMilli()) / 1e3
	}
	c.timestamp.send(ch, at)
	for result, n := range c.counts {
		c.reloads.send(ch, float64(n), pair("result", result))
	}
}
