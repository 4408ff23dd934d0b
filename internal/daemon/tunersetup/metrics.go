package tunersetup

import "github.com/prometheus/client_golang/prometheus"

// collector reads the tuner when somebody scrapes. Every label value comes
// from the configuration.
type collector struct {
	runner *Runner

	changes, reverts, locked, held *prometheus.Desc // by policy
	trusted                        *prometheus.Desc // by signal
	position, byHand               *prometheus.Desc // by setting
	frozen                         *prometheus.Desc
}

// NewCollector returns what exposes a steward's tuner to Prometheus.
func NewCollector(s *Runner) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("admitd_tuner_"+name, help, labels, nil)
	}
	return &collector{
		runner:   s,
		changes:  desc("changes_total", "Settings that a policy changed.", "policy"),
		reverts:  desc("reverts_total", "Changes of a policy that were taken back, by the tuner or by a person.", "policy"),
		locked:   desc("policy_locked", "1 while a policy is locked, since several of its changes were taken back.", "policy"),
		held:     desc("policy_held", "1 while a policy holds still, for a signal that is not trusted or a lock.", "policy"),
		trusted:  desc("signal_trusted", "1 while a signal is trusted.", "signal"),
		position: desc("setting_position", "Where a setting lies between the bounds of the policy that decides: 0 at min, 1 at max.", "setting"),
		byHand:   desc("setting_by_hand", "1 while a setting is left alone, since a person set it.", "setting"),
		frozen:   desc("frozen", "1 while the tuner is frozen or holds still for another reason."),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.changes, c.reverts, c.locked, c.held, c.trusted, c.position, c.byHand, c.frozen} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	t := c.runner.tuner()
	if t == nil {
		return
	}
	emit := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...) //nolint:promlinter // cannot follow d; the running daemon is linted in a test
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	s := t.Status(0)
	emit(c.frozen, prometheus.GaugeValue, flag(s.Hold != ""))
	for i := range s.Policies {
		p := &s.Policies[i]
		emit(c.changes, prometheus.CounterValue, float64(p.Changes), p.Name)
		emit(c.reverts, prometheus.CounterValue, float64(p.Reverts), p.Name)
		emit(c.locked, prometheus.GaugeValue, flag(p.Locked), p.Name)
		emit(c.held, prometheus.GaugeValue, flag(p.Held != ""), p.Name)
	}
	for i := range s.Signals {
		emit(c.trusted, prometheus.GaugeValue, flag(s.Signals[i].Trusted), s.Signals[i].Name)
	}
	for i := range s.Settings {
		emit(c.position, prometheus.GaugeValue, s.Settings[i].Position, s.Settings[i].Setting)
		emit(c.byHand, prometheus.GaugeValue, flag(s.Settings[i].ByHand), s.Settings[i].Setting)
	}
}
