package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
)

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
	// Timeout is when a client gives an attempt up, unless Clients.Patience says
	// more. The gate is not told; see Clients.TellDeadline.
	Timeout Duration `yaml:"timeout"`
	// BackendTimeout is when the gate gives the backend up; 0 = 30 s, the default
	// of the configuration.
	BackendTimeout Duration `yaml:"backendTimeout"`
	// Abandon is what our gates do with work whose caller has gone: finish or
	// cancel. "" = what the documents advise: cancel where the backend stops then.
	Abandon string `yaml:"abandon"`
	// Objective is the latency up to which an answer is good.
	Objective Duration `yaml:"objective"`
	// Load steps, in order of time. The first one begins at 0.
	Load []LoadStep `yaml:"load"`
	// Scale is a factor on the load, for variants; 0 = 1.
	Scale float64 `yaml:"scale"`
	// Arrivals say how they bunch.
	Arrivals ArrivalSpec `yaml:"arrivals"`
	// Bursts are requests that all arrive at one instant, on top of the load.
	Bursts []Burst `yaml:"bursts"`
	// Health of the backend, in order of time; healthy before the first.
	Health []HealthStep `yaml:"health"`
	// Pauses of the backend. They are healthy in between.
	Pauses PauseSpec `yaml:"pauses"`
	// Trigger is the span in which something is wrong; reports shade it, and
	// the time to recover counts from its end.
	Trigger Span `yaml:"trigger"`
	// Clients say what clients do with failures.
	Clients ClientSpec `yaml:"clients"`
	// Tenants split the load into keys.
	Tenants TenantSpec `yaml:"tenants"`
	// Gates before the one backend, each with limits of its own; 0 = 1.
	Gates int `yaml:"gates"`
	// Told says that the gates are told how many they are, as `gates` in the
	// configuration does.
	Told bool `yaml:"told"`
	// ToldAs is how many they are told that they are, right or wrong; 0 = what Told
	// says.
	ToldAs int `yaml:"toldAs"`
	// ToldOthers says that the gates are told of others, and not of how many, as
	// `gates: auto` in the configuration does.
	ToldOthers bool `yaml:"toldOthers"`
	// Shared says that the gates share one limit, as `shared: true` beside a limit
	// does.
	Shared bool `yaml:"shared"`
	// Total bounds the permits of each gate over all keys; 0 = none.
	Total int `yaml:"total"`
	// Share is one when all keys of a gate are under one limit; "" = each has its own.
	Share string `yaml:"share"`
	// Classes says that requests have a class: the noisy tenant's are sheddable, all
	// others critical.
	Classes bool `yaml:"classes"`
	// ReloadEvery applies the policy again and again; 0 = never.
	ReloadEvery Duration `yaml:"reloadEvery"`
	// Clock is a fault of the gates' clocks, as [clock.ParseFault] reads it.
	Clock string `yaml:"clock"`
	// Seeds is how many runs are made; 0 = 5.
	Seeds int `yaml:"seeds"`
	// Full variants are played only when everything is, or when they are named.
	Full bool `yaml:"full"`
	// Windows are the spans that are measured. They may overlap.
	Windows []Window `yaml:"windows"`
	// Variants of the scenario; none and no Sweep = the one that is written.
	Variants []Variant `yaml:"variants"`
	// Sweep adds a variant for each combination of one entry per axis; its name
	// is theirs, joined with " / ".
	Sweep [][]Variant `yaml:"sweep"`
	// Pass criteria.
	Pass []Criterion `yaml:"pass"`

	ceilings map[string]Ceiling // of its only variant, by window; nil = unknown
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
	// Patience of the clients with one attempt; none = the timeout.
	Patience PatienceSpec `yaml:"patience"`
	// TellDeadline says that clients send their patience along, so that nobody
	// waits in the gate for longer.
	TellDeadline bool `yaml:"tellDeadline"`
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

// Parse reads a scenario and reports every problem at once. Unknown
// keys are errors.
func Parse(b []byte) (*Scenario, error) {
	if len(b) > maxScenario {
		return nil, fmt.Errorf("lab: scenario has %d bytes, at most %d", len(b), maxScenario)
	}
	s := &Scenario{}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(s); err != nil {
		return nil, fmt.Errorf("lab: scenario: %w", err)
	}
	s.SetDefaults()
	if err := errors.Join(s.combine(), s.validate()); err != nil {
		return nil, fmt.Errorf("lab: scenario %s: %w", s.Name, err)
	}
	return s, nil
}

// SetDefaults fills in the model.
func (s *Scenario) SetDefaults() {
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
	if s.BackendTimeout == 0 {
		s.BackendTimeout = Duration(30 * time.Second)
	}
	s.Gates = max(s.Gates, 1)
	if s.Seeds == 0 {
		s.Seeds = 5
	}
	if len(s.Variants) == 0 && len(s.Sweep) == 0 {
		s.Variants = []Variant{{Name: "default"}}
	}
}

// What [BackendSpec.Cancelled] and [Scenario.Abandon] can be.
const (
	Stops     = "stops"
	continues = "continues"
	finishes  = "finish"
	cancels   = "cancel"
)

// abandon returns Abandon with its default.
func (s *Scenario) abandon() string {
	switch {
	case s.Abandon != "":
		return s.Abandon
	case s.Backend.Cancelled == Stops:
		return cancels
	default:
		return finishes
	}
}

// Cancels reports whether our gates close the backend side of what their callers
// have left.
func (s *Scenario) Cancels() bool { return s.abandon() == cancels }

// LongestWait returns how long a request can be on its way.
func (s *Scenario) LongestWait() time.Duration {
	caller := max(s.Timeout, s.Clients.Deadline, s.Clients.Patience.Most)
	return time.Duration(caller + s.BackendTimeout)
}
