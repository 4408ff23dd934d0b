package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/decide"
)

// askedCollector tells metrics what the desk decided.
type askedCollector struct{ desk *decide.Desk }

//nolint:gochecknoglobals // constants
var (
	askedDecisions = prometheus.NewDesc("admitd_decisions_total", "Decisions for those who ask.", []string{"via", "decision"}, nil)
	askedPermits   = prometheus.NewDesc("admitd_decision_permits", "Permits that are held for those who ask.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (askedCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- askedDecisions
	ch <- askedPermits
}

// Collect implements [prometheus.Collector].
func (c askedCollector) Collect(ch chan<- prometheus.Metric) {
	for _, via := range decide.Ways() {
		admitted, refused := c.desk.Counts(via)
		ch <- prometheus.MustNewConstMetric(askedDecisions, prometheus.CounterValue, float64(admitted), via.String(), "admitted")
		ch <- prometheus.MustNewConstMetric(askedDecisions, prometheus.CounterValue, float64(refused), via.String(), "refused")
	}
	ch <- prometheus.MustNewConstMetric(askedPermits, prometheus.GaugeValue, float64(c.desk.Held()))
}
