package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/config/strict"
)

// checkTuner checks the signals and the policies, and that what they name exists.
func checkTuner(v validator, c *Config) {
	t := &c.Tuner
	signals := map[string]int{}
	for i := range t.Signals {
		path := element("tuner.signals", i)
		v.name(path+".name", t.Signals[i].Name)
		v.unique(signals, i, "tuner.signals", "name", t.Signals[i].Name)
		checkTunerSignal(v, path, c, &t.Signals[i])
	}
	policies := map[string]int{}
	for i := range t.Policies {
		path, p := element("tuner.policies", i), &t.Policies[i]
		v.name(path+".name", p.Name)
		v.unique(policies, i, "tuner.policies", "name", p.Name)
		for _, s := range []struct{ key, name string }{{"signal", p.Signal}, {"drain", p.Drain}} {
			if _, known := signals[s.name]; !known && s.name != "" {
				v.relate("is not the name of a signal", s.name, join(path, s.key))
			}
		}
		checkTunerPolicy(v, path, c, p)
	}
	v.knownIngress("tuner.trial.objective.ingress", c, t.Trial.Objective.Ingress)
}

func checkTunerSignal(v validator, path string, c *Config, s *TunerSignal) {
	switch s.Source {
	case "host":
		if names := hostMetrics(); !slices.Contains(names, s.Metric) && s.Metric != "" {
			v.relate("must be "+list(names)+" for source host", s.Metric, path+".metric", path+".source")
		}
		if whole := []string{"load", "run_queue", "disk", "network"}; s.Cgroup != "" && slices.Contains(whole, s.Metric) {
			v.relate("does not go with cgroup: it is read of the whole machine", s.Metric, path+".metric", path+".cgroup")
		}
	case "gate":
		if names := gateMetrics(); !slices.Contains(names, s.Metric) && s.Metric != "" {
			v.relate("must be "+list(names)+" for source gate", s.Metric, path+".metric", path+".source")
		}
		v.knownIngress(path+".ingress", c, s.Ingress)
	case "scrape", "prometheus", "http":
		v.sourceURL(path+".url", s.URL, "http", "https")
	case "mongodb", "postgres":
		switch {
		case s.URL != "" && s.URLFile != "":
			v.relate("excludes url", s.URLFile, path+".urlFile", path+".url")
		case s.URLFile == "":
			v.sourceURL(path+".url", s.URL, map[string][]string{
				"mongodb": {"mongodb", "mongodb+srv"}, "postgres": {"postgres", "postgresql"},
			}[s.Source]...)
		}
	}
	if s.Min > s.Max {
		v.relate("must be at most max", s.Min, path+".min", path+".max")
	}
	if s.Source != "gate" && s.MaxAge < s.Every {
		v.relate("must be at least every: the signal would be stale between two readings", s.MaxAge, path+".maxAge", path+".every")
	}
	if bin := c.Tuner.Trial.For / 20; s.Source == "gate" && s.MaxAge < bin {
		v.relate(fmt.Sprintf("must be at least %s, a twentieth of tuner.trial.for: the signal would be stale between two readings", bin), s.MaxAge, path+".maxAge", "tuner.trial.for")
	}
}

func hostMetrics() []string {
	return []string{"cpu", "psi_cpu", "psi_io", "psi_memory", "memory", "load", "run_queue", "disk", "network"}
}

func gateMetrics() []string {
	return []string{"p50", "p99", "refused", "inFlight", "queued", "goodput"}
}

// sourceURL checks a URL that may be shown to everybody who may read the
// configuration.
func (v validator) sourceURL(path, s string, schemes ...string) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		v.relate("is required", nil, path)
	case err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
		v.relate(fmt.Sprintf("must be a URL, such as %s://127.0.0.1:9090", schemes[0]), nil, path)
	default:
		if _, has := u.User.Password(); has || u.Query().Has("password") || u.Query().Has("sslpassword") {
			v.relate("must not hold a password, which belongs in a file", nil, path)
		}
	}
}

func (v validator) knownIngress(path string, c *Config, name string) {
	if name != "" && !slices.ContainsFunc(c.Ingresses, func(in Ingress) bool { return in.Name == name }) {
		v.relate("is not the name of an ingress", name, path)
	}
}

func checkTunerPolicy(v validator, path string, c *Config, p *TunerPolicy) {
	if p.Min > p.Max {
		v.relate("must be at most max", p.Min, path+".min", path+".max")
	}
	switch p.Kind {
	case "threshold":
		if p.Below > p.Above {
			v.relate("must be at most above", p.Below, path+".below", path+".above")
		}
	case "backlog":
		if p.MinimumLimit > p.Limit {
			v.relate("must be at most limit", p.MinimumLimit, path+".minimumLimit", path+".limit")
		}
	case "schedule":
		if _, err := time.LoadLocation(p.Zone); err != nil {
			v.relate("is not a time zone, such as Europe/Berlin", p.Zone, path+".zone")
		}
		for i := range p.Hours {
			at := element(path+".hours", i)
			v.hour(at+".from", p.Hours[i].From)
			v.hour(at+".to", p.Hours[i].To)
		}
	}
	if least := leastAdjusted(p.Adjust); least > 0 {
		effective := func(value float64, key string) {
			if value < least {
				v.relate(fmt.Sprintf("must be at least %v, the smallest value of the setting that has an effect", least), value, key, path+".adjust")
			}
		}
		if p.Kind == "backlog" {
			effective(p.MinimumLimit, path+".minimumLimit")
		} else {
			effective(p.Min, path+".min")
		}
		for i := range p.Hours {
			effective(p.Hours[i].Bound, element(path+".hours", i)+".bound")
		}
	}
	if strings.HasSuffix(p.Adjust, ".mode") && !p.AllowMode {
		v.relate("needs allowMode: true, as it lets the policy stop the gate from refusing", p.Adjust, path+".adjust", path+".allowMode")
	}
	if p.Adjust != "" && !c.adjustable(p.Adjust) {
		problem := "is not a number that can change while the gate runs, such as orders.requests.rate"
		if strings.Contains(p.Adjust, ".queue.") {
			problem += "; a queue that is auto has none"
		}
		v.relate(problem, p.Adjust, path+".adjust")
	}
}

// leastAdjusted is the smallest value that a policy may give to a setting: of many
// 0 means something else, such as without bound.
func leastAdjusted(adjust string) float64 {
	switch adjust[strings.LastIndexByte(adjust, '.')+1:] {
	case "rate", "burstSeconds", "requestTimeout", "maxWait":
		return 0.001
	case "backoffRatio":
		return 0.5
	case "total", "maxOpen", "limit", "initialLimit", "minLimit", "maxLimit", "alpha", "beta", "rttTolerance":
		return 1
	}
	return 0
}

func (v validator) hour(path, text string) {
	if _, err := time.Parse("15:04", text); err != nil && text != "24:00" && text != "" {
		v.relate("is not a time of the day, such as 08:00", text, path)
	}
}

// adjustable reports whether a path names a number of some ingress that can be
// patched.
func (c *Config) adjustable(adjust string) bool {
	for i := range c.Ingresses {
		in := &c.Ingresses[i]
		for _, name := range []string{in.Name, "*"} {
			rest, found := strings.CutPrefix(adjust, name+".")
			if found && in.adjustable(rest) {
				return true
			}
		}
	}
	return false
}

func (in *Ingress) adjustable(rest string) bool {
	section, key, _ := strings.Cut(rest, ".")
	switch section {
	case "mode":
		return key == ""
	case "requests":
		return isNumber(reflect.ValueOf(in.Requests), key)
	case "connections":
		return isNumber(reflect.ValueOf(in.Connections), key)
	case "partitions":
		return key == "total" || in.Partitions.adjustable(strings.TrimPrefix(key, "named."))
	}
	return false
}

func (p *Partitions) adjustable(rest string) bool {
	number := func(name string, partition any) bool {
		key, found := strings.CutPrefix(rest, name+".")
		if !found {
			key, found = strings.CutPrefix(rest, "*.")
		}
		return found && isNumber(reflect.ValueOf(partition), key)
	}
	return number("default", p.Default) || slices.ContainsFunc(p.Named, func(n NamedPartition) bool { return number(n.Name, n) })
}

// isNumber reports whether a path below a struct leads to a number that its
// other keys allow, and that is not for people alone to change.
func isNumber(v reflect.Value, path string) bool {
	if q, ok := reflect.TypeAssert[Queue](v); ok && q.Auto {
		return false
	}
	key, rest, more := strings.Cut(path, ".")
	for name, leaf := range strict.Tags(Words).Keys(v) {
		if name != key || slices.Contains([]string{"weight", "maxShare", "reserved", "longWindow"}, key) {
			continue
		}
		switch leaf.Kind() { //nolint:exhaustive // the others are no numbers
		case reflect.Struct:
			return more && (key == "limit" || key == "queue") && isNumber(leaf, rest)
		case reflect.Int, reflect.Int64, reflect.Float64:
			return !more
		}
	}
	return false
}
