package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// problems gathers what is wrong.
type problems []error

// need adds a problem unless ok.
func (p *problems) need(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// validate reports every problem of every variant.
func (s *Scenario) validate() error {
	var p problems
	p.need(s.Name != "" && s.About != "", "name and about must not be empty")
	names := map[string]bool{}
	for i := range s.Variants {
		name := s.Variants[i].Name
		p.need(name != "" && !names[name], "variants must have names of their own (%q)", name)
		names[name] = true
		if err := s.Apply(&s.Variants[i]).validateRun(); err != nil {
			p = append(p, fmt.Errorf("variant %s: %w", name, err))
		}
	}
	for i := range s.Pass {
		p = append(p, s.Pass[i].validate(s))
	}
	return errors.Join(p...)
}

// validateRun reports every problem of one variant.
func (s *Scenario) validateRun() error {
	var p problems
	p.need(s.For > 0 && time.Duration(s.For) <= 48*time.Hour, "for must be in (0, 48h] (%v)", time.Duration(s.For))
	p.need(s.Seeds >= 1 && s.Seeds <= 1000, "seeds must be in [1, 1000] (%d)", s.Seeds)
	p.need(len(s.Windows) > 0, "at least one window must be measured")
	for _, w := range s.Windows {
		p.need(w.From >= 0 && w.From < w.To && w.To <= s.For, "window %s must lie within the run (%v to %v)",
			w.Name, time.Duration(w.From), time.Duration(w.To))
	}
	s.Backend.validate(&p)
	s.Demand.validate(&p)
	s.Faults.validate(&p)
	s.Gating.validate(&p)
	s.validateTurns(&p)
	if errors.Join(p...) == nil {
		n := s.arrivals()
		p.need(n <= maxArrivals, "a run would have %.0f arrivals, at most %.0f", n, float64(maxArrivals))
	}
	return errors.Join(p...)
}

// validate reports what is wrong with a backend.
func (s *BackendSpec) validate(p *problems) {
	p.need(s.Workers > 0 && s.Workers <= 10_000, "backend.workers must be in [1, 10000] (%d)", s.Workers)
	p.need(slices.Contains(serviceKinds(), s.Service.Kind), "service.kind must be constant, exponential, lognormal, pareto, bimodal or classes (%s)", s.Service.Kind)
	p.need(s.Service.Kind != "pareto" || s.Service.Shape > 1, "service.shape must be > 1 for pareto (%g)", s.Service.Shape)
	p.need(slices.Contains([]string{"", fifo, sharing}, s.Discipline), "backend.discipline must be fifo or sharing (%s)", s.Discipline)
	p.need(!s.Shares() || s.Queue == 0 && s.QueueTimeout == 0, "backend.queue and queueTimeout are for the discipline fifo")
	p.need(s.QueueTimeout >= 0, "backend.queueTimeout must be >= 0 (%v)", time.Duration(s.QueueTimeout))
	p.need(s.Service.Mean > 0, "service.mean must be > 0 (%v)", time.Duration(s.Service.Mean))
	p.need(!s.Service.isMixed() || s.Service.Other > 0, "service.other must be > 0 (%v)", time.Duration(s.Service.Other))
	p.need(slices.Contains([]string{"", Stops, continues}, s.Cancelled), "backend.cancelled must be stops or continues (%s)", s.Cancelled)
	p.need(s.Contention.Serial >= 0 && s.Contention.Crosstalk >= 0, "backend.contention must be >= 0 (%+v)", s.Contention)
}

// validate reports what is wrong with the arrivals and the clients.
func (d *Demand) validate(p *problems) {
	p.need(d.Timeout > 0, "timeout must be > 0 (%v)", time.Duration(d.Timeout))
	d.Clients.validate(p)
	p.need(len(d.Load) > 0 && d.Load[0].At == 0, "load must begin at 0s")
	p.need(slices.IsSortedFunc(d.Load, func(a, b LoadStep) int { return int(a.At - b.At) }), "load must be in order of time")
	for i, step := range d.Load {
		p.need(i == 0 || d.Load[i-1].At+d.Load[i-1].Over <= step.At, "load: a ramp must end before the next step (%v)", time.Duration(step.At))
	}
	for _, b := range d.Bursts {
		p.need(b.Requests > 0 && b.Requests <= 1_000_000, "bursts must have 1 to 1000000 requests (%d)", b.Requests)
	}
	p.need(d.Tenants.Count <= 1_000_000, "tenants.count must be at most 1000000 (%d)", d.Tenants.Count)
	p.need(d.Tenants.Noisy >= 0, "tenants.noisy must be >= 0 (%g)", d.Tenants.Noisy)
	c := d.Callers
	p.need(c.Count >= 0 && c.Count <= 100_000 && (c.Count == 0 || c.Think > 0), "callers must be at most 100000, with a time to think > 0 (%d, %v)", c.Count, time.Duration(c.Think))
	a := &d.Arrivals
	p.need(a.Batch >= 0 && a.Batch <= 100_000, "arrivals.batch must be at most 100000 (%d)", a.Batch)
	p.need(a.High == 0 || a.On > 0 && a.Off > 0 && a.High >= 1 && a.Low() >= 0,
		"arrivals.high must be at least 1 and leave something for the calm times, with on and off > 0 (%g)", a.High)
}

// validate reports what is wrong with the changes of health.
func (f *Faults) validate(p *problems) {
	p.need(slices.IsSortedFunc(f.Health, func(a, b HealthStep) int { return int(a.At - b.At) }), "health must be in order of time")
	for i, h := range f.Health {
		p.need(i == 0 || f.Health[i-1].At+f.Health[i-1].Over <= h.At, "health: a ramp must end before the next step (%v)", time.Duration(h.At))
		p.need(h.Share == nil || *h.Share >= 0 && *h.Share <= 1, "health.share must be in [0, 1]")
		p.need(h.Workers >= 0 && h.Workers <= 10_000, "health.workers must be at most 10000 (%d)", h.Workers)
	}
	p.need(f.Pauses.Every >= 0 && f.Pauses.For <= f.Pauses.Every, "pauses must be shorter than the time between them (%v)", time.Duration(f.Pauses.For))
}

// validate reports what is wrong with the clients.
func (c *ClientSpec) validate(p *problems) {
	if _, err := c.ClientPolicy(nil); err != nil {
		*p = append(*p, err)
	}
	w := c.Patience
	p.need(w == PatienceSpec{} || w.Least > 0 && w.Most >= w.Least, "clients.patience must go from more than nothing to at least as much (%v to %v)",
		time.Duration(w.Least), time.Duration(w.Most))
}

// arrivals returns about how many requests a run has.
func (s *Scenario) arrivals() float64 {
	n := 0.0
	steps := s.LoadSteps()
	for i, step := range steps {
		until := s.For
		if i+1 < len(steps) {
			until = steps[i+1].At
		}
		n += max(step.Load, 0) * time.Duration(until-step.At).Seconds()
	}
	seconds := time.Duration(s.For).Seconds()
	n = (n+s.Tenants.Noisy*seconds)*s.Backend.Capacity() + s.Callers.Asking(0)*seconds
	for _, b := range s.Bursts {
		n += float64(b.Requests)
		if b.Every > 0 && b.At < s.For {
			n += float64(b.Requests) * float64(s.For-b.At) / float64(b.Every)
		}
	}
	return n
}

// validateTurns reports what would come again and again too often.
func (s *Scenario) validateTurns(p *problems) {
	for _, t := range []struct {
		key   string
		every Duration
	}{{"pauses.every", s.Pauses.Every}, {"reloadEvery", s.ReloadEvery}, {"arrivals.on + off", s.Arrivals.On + s.Arrivals.Off}} {
		p.need(t.every <= 0 || s.For/t.every <= maxTurns, "%s must be at least a millionth of the run (%v)", t.key, time.Duration(t.every))
	}
}
