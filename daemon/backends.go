package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/ingress/httpgate"
)

// backendCollector reads how HTTP backends failed when somebody scrapes.
type backendCollector struct {
	watched[*httpgate.Server]

	failures *prometheus.Desc
}

func newBackendCollector() *backendCollector {
	return &backendCollector{
		failures: prometheus.NewDesc("admitd_backend_failures_total",
			"Admitted requests that got no answer from the backend.", []string{"ingress", "cause"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *backendCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.failures }

// Collect implements [prometheus.Collector].
func (c *backendCollector) Collect(ch chan<- prometheus.Metric) {
	for ingress, s := range c.byIngress() {
		for cause, n := range failures(s.Status().BackendFailures) {
			ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(n), ingress, cause) //nolint:promlinter // cannot follow the description; the running daemon is linted in a test
		}
	}
}
