package main

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/ingress/httpgate"
)

// backendCollector reads how HTTP backends failed when somebody scrapes.
type backendCollector struct {
	failures *prometheus.Desc

	mu   sync.Mutex // guards read
	read map[string]*httpgate.Server
}

func newBackendCollector() *backendCollector {
	return &backendCollector{
		failures: prometheus.NewDesc("admitd_backend_failures_total",
			"Admitted requests that got no answer from the backend.", []string{"ingress", "cause"}, nil),
		read: map[string]*httpgate.Server{},
	}
}

// watch reads an ingress until stop is called. When an ingress is replaced the
// new one is watched before the old one stops.
func (c *backendCollector) watch(ingress string, s *httpgate.Server) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[ingress] = s
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.read[ingress] == s {
			delete(c.read, ingress)
		}
	}
}

// Describe implements [prometheus.Collector].
func (c *backendCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.failures }

// Collect implements [prometheus.Collector].
func (c *backendCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	read := maps.Clone(c.read)
	c.mu.Unlock()
	for ingress, s := range read {
		for cause, n := range failures(s.Status().BackendFailures) {
			ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(n), ingress, cause) //nolint:promlinter // cannot follow the description; the running daemon is linted in a test
		}
	}
}
