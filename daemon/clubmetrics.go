package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/fleet"
)

// clubCollector reads the group when somebody scrapes. Every label value comes
// from the configuration or a closed set.
type clubCollector struct {
	club                                              *club
	share, gates, age, mode, calls, failures, seconds *prometheus.Desc
}

func newClubCollector(c *club) *clubCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("admitd_fleet_"+name, help, labels, nil)
	}
	return &clubCollector{
		club:     c,
		share:    desc("share", "Part of a shared rate that this gate was lent last, tokens per second.", "quota"),
		gates:    desc("gates", "Gates of the group as this one saw it last."),
		age:      desc("lease_age_seconds", "Time since the group answered last."),
		mode:     desc("mode", "1 for what the gate goes by: leased, kept, or its fallback.", "mode"),
		calls:    desc("calls_total", "Calls that the group answered."),
		failures: desc("call_failures_total", "Calls that the group did not answer."),
		seconds:  desc("call_seconds", "How long the last call took that was answered."),
	}
}

// Describe implements [prometheus.Collector].
func (c *clubCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.share, c.gates, c.age, c.mode, c.calls, c.failures, c.seconds} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *clubCollector) Collect(ch chan<- prometheus.Metric) {
	g := c.club.current()
	if g == nil {
		return
	}
	s := g.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...) //nolint:promlinter // as in tunerCollector
	}
	for _, sum := range g.Sums() {
		gauge(c.share, sum.Share, sum.Label)
	}
	gauge(c.gates, float64(s.Gates))
	gauge(c.age, s.AgeSeconds)
	gauge(c.seconds, s.CallMS/1000)
	for _, m := range fleet.Modes() {
		in := 0.0
		if string(m) == s.Mode {
			in = 1
		}
		gauge(c.mode, in, string(m))
	}
	ch <- prometheus.MustNewConstMetric(c.calls, prometheus.CounterValue, float64(s.Calls))       //nolint:promlinter // as in tunerCollector
	ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(s.Failures)) //nolint:promlinter // as above
}
