package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/tuner"
	"github.com/admitd/admitd/tuner/mongosource"
	"github.com/admitd/admitd/tuner/policy"
	"github.com/admitd/admitd/tuner/signal"
	"github.com/admitd/admitd/tuner/source"
	"github.com/admitd/admitd/tuner/sqlsource"
)

// tunerOptions builds what a section says, without connecting anywhere.
func tunerOptions(section *config.Tuner) (tuner.Options, error) {
	o := tuner.Options{
		Mode: tuner.Mode(section.Mode),
		Trial: tuner.TrialOptions{
			Canary: section.Trial.Canary, For: time.Duration(section.Trial.For),
			Ingress: section.Trial.Objective.Ingress, Objective: time.Duration(section.Trial.Objective.P99),
		},
	}
	var errs []error
	for i := range section.Signals {
		s, err := tunerSignal(&section.Signals[i])
		errs = append(errs, named(err, "tuner.signals", section.Signals[i].Name))
		o.Signals = append(o.Signals, s)
	}
	for i := range section.Policies {
		p, err := tunerPolicy(&section.Policies[i])
		errs = append(errs, named(err, "tuner.policies", section.Policies[i].Name))
		o.Policies = append(o.Policies, p)
	}
	return o, errors.Join(errs...)
}

// named says which element of a list an error is of.
func named(err error, list, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", list, name, err)
}

func tunerSignal(s *config.TunerSignal) (tuner.Signal, error) {
	out := tuner.Signal{
		Name: s.Name, Ingress: s.Ingress, Metric: s.Metric, Every: time.Duration(s.Every), Timeout: time.Duration(s.Timeout),
		Options: signal.Options{
			Window: time.Duration(s.Window), Quantile: s.Quantile, Rate: s.As == "rate", MaxAge: time.Duration(s.MaxAge),
			Min: s.Min, Max: s.Max, StuckFor: time.Duration(s.StuckFor), Spike: s.Spike,
		},
	}
	if s.Source == "host" && s.Min == 0 && s.Max == 0 && share(s.Metric) {
		out.Max = 1
	}
	if s.Source == "gate" {
		return out, nil
	}
	var err error
	out.Source, err = tunerSource(s)
	return out, err
}

// share reports whether a metric of the host cannot pass 1.
func share(metric string) bool {
	return metric == "cpu" || metric == "memory" || metric == "disk" || strings.HasPrefix(metric, "psi_")
}

func tunerSource(s *config.TunerSignal) (tuner.Source, error) {
	at := source.Endpoint{URL: s.URL, TokenFile: s.TokenFile}
	url := s.URL
	if s.URLFile != "" {
		b, err := os.ReadFile(s.URLFile)
		if err != nil {
			return nil, fmt.Errorf("urlFile: %w", err)
		}
		url = strings.TrimSpace(string(b))
	}
	switch s.Source {
	case "host":
		return &source.Host{Metric: s.Metric, Cgroup: s.Cgroup, Root: os.DirFS("/")}, nil
	case "scrape":
		return &source.Scrape{Endpoint: at, Metric: s.Metric, Labels: s.Labels, Quantile: s.HistogramQuantile}, nil
	case "prometheus":
		return &source.Query{Endpoint: at, Query: s.Query}, nil
	case "http":
		_, err := source.ParsePath(s.Path)
		return &source.Document{Endpoint: at, Path: s.Path}, err
	case "mongodb":
		return mongosource.New(url, s.Command, s.Path) //nolint:wrapcheck // it names itself
	case "postgres":
		return sqlsource.New(url, s.Query)
	}
	return nil, fmt.Errorf("source %s is not known", s.Source)
}

func tunerPolicy(p *config.TunerPolicy) (tuner.Policy, error) {
	adjust, err := tuner.ParseSetting(p.Adjust)
	out := tuner.Policy{
		Name: p.Name, Adjust: adjust, Min: p.Min, Max: p.Max, Step: p.Step, Cooldown: time.Duration(p.Cooldown),
	}
	if p.Signal != "" {
		out.Signals = []string{p.Signal}
	}
	switch p.Kind {
	case "threshold":
		out.Rule = &policy.Threshold{Above: p.Above, Below: p.Below, For: time.Duration(p.For), Step: p.Step, Inverted: p.Inverted}
	case "target":
		out.Rule = &policy.Target{Target: p.Target, Step: p.Step, Inverted: p.Inverted}
	case "objective":
		out.Rule = &policy.Objective{Objective: time.Duration(p.Objective).Seconds(), Step: p.Step}
	case "backlog":
		out.Signals = []string{p.Signal, p.Drain}
		out.Min, out.Max, out.Cooldown = p.MinimumLimit, p.Limit, time.Duration(p.Resolution)
		out.Rule = &policy.Backlog{Acceptable: p.AcceptableBacklog, Minimum: p.MinimumLimit, Limit: p.Limit, RampUp: time.Duration(p.RampUp)}
	case "schedule":
		zone, zoneErr := time.LoadLocation(p.Zone)
		err = errors.Join(err, zoneErr)
		out.Rule = &policy.Schedule{Hours: tunerHours(p.Hours), Location: zone}
	}
	return out, err
}

func tunerHours(list []config.TunerHours) []policy.Hours {
	days := map[string]time.Weekday{
		"sun": time.Sunday, "mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday, "thu": time.Thursday,
		"fri": time.Friday, "sat": time.Saturday,
	}
	out := make([]policy.Hours, len(list))
	for i, h := range list {
		out[i] = policy.Hours{From: sinceMidnight(h.From), To: sinceMidnight(h.To), Bound: h.Bound}
		for _, d := range h.Days {
			out[i].Days = append(out[i].Days, days[d])
		}
	}
	return out
}

// sinceMidnight reads a time of the day, which was checked.
func sinceMidnight(text string) time.Duration {
	if text == "24:00" {
		return 24 * time.Hour
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

// tunerCollector reads the tuner when somebody scrapes. Every label value comes
// from the configuration.
type tunerCollector struct {
	steward *steward

	changes, reverts, locked, held *prometheus.Desc // by policy
	trusted                        *prometheus.Desc // by signal
	position, byHand               *prometheus.Desc // by setting
	frozen                         *prometheus.Desc
}

func newTunerCollector(s *steward) *tunerCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("admitd_tuner_"+name, help, labels, nil)
	}
	return &tunerCollector{
		steward:  s,
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
func (c *tunerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.changes, c.reverts, c.locked, c.held, c.trusted, c.position, c.byHand, c.frozen} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *tunerCollector) Collect(ch chan<- prometheus.Metric) {
	t := c.steward.tuner()
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
