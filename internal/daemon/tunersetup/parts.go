package tunersetup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/tuner"
	"github.com/admitd/admitd/internal/tuner/mongosource"
	"github.com/admitd/admitd/internal/tuner/policy"
	"github.com/admitd/admitd/internal/tuner/signal"
	"github.com/admitd/admitd/internal/tuner/source"
	"github.com/admitd/admitd/internal/tuner/sqlsource"
)

// Options builds what a section says, without connecting anywhere.
func Options(section *config.Tuner) (tuner.Options, error) {
	o := tuner.Options{
		Mode: tuner.Mode(section.Mode),
		Trial: tuner.TrialOptions{
			Canary: section.Trial.Canary, For: time.Duration(section.Trial.For),
			Ingress: section.Trial.Objective.Ingress, Objective: time.Duration(section.Trial.Objective.P99),
		},
	}
	var errs []error
	shared := endpoints{}
	for i := range section.Signals {
		s, err := signalOf(&section.Signals[i], shared)
		errs = append(errs, named(err, "tuner.signals", section.Signals[i].Name))
		o.Signals = append(o.Signals, s)
	}
	for i := range section.Policies {
		p, err := policyOf(&section.Policies[i])
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

func signalOf(s *config.TunerSignal, shared endpoints) (tuner.Signal, error) {
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
	out.Source, err = sourceOf(s, shared)
	return out, err
}

// share reports whether a metric of the host cannot pass 1.
func share(metric string) bool {
	return metric == "cpu" || metric == "memory" || metric == "disk" || strings.HasPrefix(metric, "psi_")
}

// place is an endpoint that several signals read at one pace: it is fetched once for
// all of them.
type place struct {
	kind, url, tokenFile string
	every, timeout       config.Duration
}

type endpoints map[place]*source.Endpoint

// of returns the endpoint of a signal.
func (e endpoints) of(s *config.TunerSignal) *source.Endpoint {
	p := place{s.Source, s.URL, s.TokenFile, s.Every, s.Timeout}
	if e[p] == nil {
		e[p] = &source.Endpoint{URL: s.URL, TokenFile: s.TokenFile, Fresh: time.Duration(s.Every) / 2}
	}
	return e[p]
}

func sourceOf(s *config.TunerSignal, shared endpoints) (tuner.Source, error) {
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
		at := shared.of(s)
		out := &source.Scrape{Endpoint: at, Metric: s.Metric, Labels: s.Labels, Quantile: s.HistogramQuantile}
		at.Share(out)
		return out, nil
	case "prometheus":
		return &source.Query{Endpoint: &source.Endpoint{URL: s.URL, TokenFile: s.TokenFile}, Query: s.Query}, nil
	case "http":
		_, err := source.ParsePath(s.Path)
		at := shared.of(s)
		out := &source.Document{Endpoint: at, Path: s.Path}
		at.Share(out)
		return out, err
	case "mongodb":
		return mongosource.New(url, s.Command, s.Path) //nolint:wrapcheck // it names itself
	case "postgres":
		return sqlsource.New(url, s.Query)
	}
	return nil, fmt.Errorf("source %s is not known", s.Source)
}

func policyOf(p *config.TunerPolicy) (tuner.Policy, error) {
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
		out.Rule = &policy.Schedule{Hours: hoursOf(p.Hours), Location: zone}
	}
	return out, err
}

func hoursOf(list []config.TunerHours) []policy.Hours {
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
