package lab

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/admitd/admitd/clock"
)

// shipped holds the scenarios that come with the program.
//
//go:embed scenarios/*.yaml
var shipped embed.FS

// maxScenario bounds a scenario file, in bytes.
const maxScenario = 64 << 10

// maxArrivals bounds the arrivals of one run, so that a file cannot keep the
// lab busy for ever.
const maxArrivals = 50e6

// Scenario is an experiment: a backend, a load, what goes wrong, and what must
// hold. Fields that are left out have the defaults of the model: 8 workers,
// exponential service of 10 ms, 0.2 % slower per request beyond 8 inside, a
// client that gives up after 1 s, an objective of 100 ms.
type Scenario struct {
	// Name is unique; files are named for it.
	Name string `yaml:"name"`
	// About says in a sentence or two what is tried and why.
	About string `yaml:"about"`
	// Backend is what is protected.
	Backend BackendSpec `yaml:"backend"`
	// For is the length of a run, in virtual time.
	For Duration `yaml:"for"`
	// Timeout is when a client gives an attempt up, and the gate with it.
	Timeout Duration `yaml:"timeout"`
	// Objective is the latency up to which an answer is good.
	Objective Duration `yaml:"objective"`
	// Load steps, in order of time. The first one begins at 0.
	Load []LoadStep `yaml:"load"`
	// Bursts are requests that all arrive at one instant, on top of the load.
	Bursts []Burst `yaml:"bursts"`
	// Health of the backend, in order of time; healthy before the first.
	Health []HealthStep `yaml:"health"`
	// Trigger is the span in which something is wrong; reports shade it, and
	// the time to recover counts from its end.
	Trigger Span `yaml:"trigger"`
	// Clients say what clients do with failures.
	Clients ClientSpec `yaml:"clients"`
	// Tenants split the load into keys.
	Tenants TenantSpec `yaml:"tenants"`
	// Gates before the one backend, each with limits of its own; 0 = 1.
	Gates int `yaml:"gates"`
	// Total bounds the permits of each gate over all keys; 0 = none.
	Total int `yaml:"total"`
	// ReloadEvery applies the policy again and again; 0 = never.
	ReloadEvery Duration `yaml:"reloadEvery"`
	// Clock is a fault of the gates' clocks, as [clock.ParseFault] reads it.
	Clock string `yaml:"clock"`
	// Seeds is how many runs are made; 0 = 5.
	Seeds int `yaml:"seeds"`
	// Windows are the spans that are measured. They may overlap.
	Windows []Window `yaml:"windows"`
	// Variants of the scenario; none = the one that is written.
	Variants []Variant `yaml:"variants"`
	// Pass criteria.
	Pass []Criterion `yaml:"pass"`
}

// LoadStep sets the offered load from At on.
type LoadStep struct {
	At Duration `yaml:"at"`
	// Load is a multiple of the healthy backend's capacity.
	Load float64 `yaml:"load"`
}

// Burst is a number of requests at one instant, once or every so often.
type Burst struct {
	At       Duration `yaml:"at"`
	Every    Duration `yaml:"every"` // 0 = once
	Requests int      `yaml:"requests"`
}

// HealthStep sets the backend's health from At on.
type HealthStep struct {
	At Duration `yaml:"at"`
	// Slow is a factor on every service time; 0 = 1.
	Slow float64 `yaml:"slow"`
	// Delay is added to every answer without occupying a worker.
	Delay Duration `yaml:"delay"`
	// Frozen backends take up no work.
	Frozen bool `yaml:"frozen"`
}

// Span is a stretch of virtual time; the zero Span is empty.
type Span struct {
	From Duration `yaml:"from"`
	To   Duration `yaml:"to"`
}

// ClientSpec says what clients do with failures.
type ClientSpec struct {
	// Policy is none (no retry), naive (retries every failure after 50 to 100 ms,
	// whatever the labels say), seed, driver or slowdown: those of the client room.
	Policy string `yaml:"policy"`
	// Retries bounds those of naive; negative = until the deadline.
	Retries int `yaml:"retries"`
	// Budget gives the clients one retry budget.
	Budget bool `yaml:"budget"`
	// Deadline of a request, over all its attempts; 0 = none.
	Deadline Duration `yaml:"deadline"`
}

// TenantSpec splits the load into keys.
type TenantSpec struct {
	// Count of tenants that share the load evenly; 0 = one, without a key.
	Count int `yaml:"count"`
	// Noisy is the load of one further tenant, as a multiple of the capacity.
	Noisy float64 `yaml:"noisy"`
	// Max is the bound on partitions; 0 = 1000.
	Max int `yaml:"max"`
}

// Window is a span that is measured, by the moment at which requests were due.
type Window struct {
	Name string   `yaml:"name"`
	From Duration `yaml:"from"`
	To   Duration `yaml:"to"`
}

// Variant changes a scenario. Zero fields change nothing.
type Variant struct {
	Name    string       `yaml:"name"`
	Scale   float64      `yaml:"scale"` // factor on the load
	For     Duration     `yaml:"for"`
	Health  []HealthStep `yaml:"health"`
	Clients *ClientSpec  `yaml:"clients"`
	Service *ServiceSpec `yaml:"service"`
	Clock   string       `yaml:"clock"`
	Gates   int          `yaml:"gates"`
	Total   int          `yaml:"total"`
	Windows []Window     `yaml:"windows"`
}

// ParseScenario reads a scenario and reports every problem at once. Unknown
// keys are errors.
func ParseScenario(b []byte) (*Scenario, error) {
	if len(b) > maxScenario {
		return nil, fmt.Errorf("lab: scenario has %d bytes, at most %d", len(b), maxScenario)
	}
	s := &Scenario{}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(s); err != nil {
		return nil, fmt.Errorf("lab: scenario: %w", err)
	}
	s.setDefaults()
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("lab: scenario %s: %w", s.Name, err)
	}
	return s, nil
}

// Shipped returns the scenarios that come with the program, by name.
func Shipped() ([]*Scenario, error) {
	names, err := fs.Glob(shipped, "scenarios/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("lab: shipped scenarios: %w", err)
	}
	var list []*Scenario
	for _, name := range names {
		b, err := shipped.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("lab: shipped scenarios: %w", err)
		}
		s, err := ParseScenario(b)
		if err != nil {
			return nil, err
		}
		if want := strings.TrimSuffix(path.Base(name), ".yaml"); s.Name != want {
			return nil, fmt.Errorf("lab: %s is named %s", name, s.Name)
		}
		list = append(list, s)
	}
	return list, nil
}

// setDefaults fills in the model.
func (s *Scenario) setDefaults() {
	b := &s.Backend
	if b.Workers == 0 {
		b.Workers = 8
		if b.Thrash == 0 {
			b.Thrash = 0.002
		}
	}
	if b.Service.Mean == 0 {
		b.Service.Mean = Duration(10 * time.Millisecond)
	}
	if s.Timeout == 0 {
		s.Timeout = Duration(time.Second)
	}
	if s.Objective == 0 {
		s.Objective = Duration(100 * time.Millisecond)
	}
	s.Gates = max(s.Gates, 1)
	if s.Seeds == 0 {
		s.Seeds = 5
	}
	if len(s.Variants) == 0 {
		s.Variants = []Variant{{Name: "default"}}
	}
}

// Variant returns the scenario with one variant applied. ok is false when there
// is no such variant.
func (s *Scenario) Variant(name string) (v *Scenario, ok bool) {
	i := slices.IndexFunc(s.Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.apply(&s.Variants[i]), true
}

// apply returns a copy of s changed by v.
func (s *Scenario) apply(v *Variant) *Scenario {
	out := *s
	out.Variants = []Variant{{Name: v.Name}}
	if v.Scale > 0 {
		out.Load = slices.Clone(s.Load)
		for i := range out.Load {
			out.Load[i].Load *= v.Scale
		}
	}
	if v.For > 0 {
		out.For = v.For
	}
	if v.Health != nil {
		out.Health = v.Health
	}
	if v.Clients != nil {
		out.Clients = *v.Clients
	}
	if v.Service != nil {
		out.Backend.Service = *v.Service
	}
	if v.Clock != "" {
		out.Clock = v.Clock
	}
	if v.Gates > 0 {
		out.Gates = v.Gates
	}
	if v.Total > 0 {
		out.Total = v.Total
	}
	if v.Windows != nil {
		out.Windows = v.Windows
	}
	return &out
}

// validate reports every problem of every variant.
func (s *Scenario) validate() error {
	var errs []error
	if s.Name == "" || s.About == "" {
		errs = append(errs, errors.New("name and about must not be empty"))
	}
	for i := range s.Variants {
		v := s.apply(&s.Variants[i])
		if err := v.validateRun(); err != nil {
			errs = append(errs, fmt.Errorf("variant %s: %w", s.Variants[i].Name, err))
		}
	}
	for i := range s.Pass {
		errs = append(errs, s.Pass[i].validate(s))
	}
	return errors.Join(errs...)
}

// validateRun reports every problem of one variant.
func (s *Scenario) validateRun() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(s.For > 0 && time.Duration(s.For) <= 48*time.Hour, "for must be in (0, 48h] (%v)", time.Duration(s.For))
	need(s.Timeout > 0, "timeout must be > 0 (%v)", time.Duration(s.Timeout))
	need(s.Backend.Workers > 0, "backend.workers must be > 0 (%d)", s.Backend.Workers)
	need(slices.Contains([]string{"", "constant", "exponential", "lognormal", "bimodal"}, s.Backend.Service.Kind),
		"service.kind must be constant, exponential, lognormal or bimodal (%s)", s.Backend.Service.Kind)
	need(s.Backend.Service.Mean > 0, "service.mean must be > 0 (%v)", time.Duration(s.Backend.Service.Mean))
	need(s.Gates <= 64, "gates must be at most 64 (%d)", s.Gates)
	need(s.Seeds >= 1 && s.Seeds <= 1000, "seeds must be in [1, 1000] (%d)", s.Seeds)
	need(len(s.Load) > 0 && s.Load[0].At == 0, "load must begin at 0s")
	need(slices.IsSortedFunc(s.Load, func(a, b LoadStep) int { return int(a.At - b.At) }), "load must be in order of time")
	need(slices.IsSortedFunc(s.Health, func(a, b HealthStep) int { return int(a.At - b.At) }), "health must be in order of time")
	need(len(s.Windows) > 0, "at least one window must be measured")
	for _, w := range s.Windows {
		need(w.From >= 0 && w.From < w.To && w.To <= s.For, "window %s must lie within the run (%v to %v)", w.Name, time.Duration(w.From), time.Duration(w.To))
	}
	for _, b := range s.Bursts {
		need(b.Requests > 0 && b.Requests <= 1_000_000, "bursts must have 1 to 1000000 requests (%d)", b.Requests)
	}
	_, err := s.Clients.policy(nil)
	errs = append(errs, err)
	if _, err := clock.ParseFault(s.Clock); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 || errors.Join(errs...) == nil {
		n := s.arrivals()
		need(n <= maxArrivals, "a run would have %.0f arrivals, at most %.0f", n, float64(maxArrivals))
	}
	return errors.Join(errs...)
}

// arrivals returns about how many requests a run has.
func (s *Scenario) arrivals() float64 {
	n := 0.0
	for i, step := range s.Load {
		until := s.For
		if i+1 < len(s.Load) {
			until = s.Load[i+1].At
		}
		n += max(step.Load, 0) * time.Duration(until-step.At).Seconds()
	}
	return (n + s.Tenants.Noisy*time.Duration(s.For).Seconds()) * s.Backend.Capacity()
}
