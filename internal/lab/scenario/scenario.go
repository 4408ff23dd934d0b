package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// maxScenario bounds a scenario file, in bytes.
const maxScenario = 64 << 10

// Bounds on what a file can ask for, so that it cannot keep the lab busy for ever.
const (
	maxArrivals = 50e6      // of one run
	maxTurns    = 1_000_000 // of what comes again and again in one run
	maxVariants = 10_000    // of a sweep
	maxAliases  = 16        // of YAML; each may multiply what those before it made
)

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
	// Objective is the latency up to which an answer is good.
	Objective Duration `yaml:"objective"`

	Demand `yaml:",inline"`
	Faults `yaml:",inline"`
	Gating `yaml:",inline"`

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
	if n := aliases(b); n > maxAliases {
		return nil, fmt.Errorf("lab: scenario has %d YAML aliases, at most %d", n, maxAliases)
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

// aliases counts those of a text.
func aliases(b []byte) (n int) {
	for _, t := range lexer.Tokenize(string(b)) {
		if t.Type == token.AliasType {
			n++
		}
	}
	return n
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
	def(&b.Service.Mean, Duration(10*time.Millisecond))
	def(&s.Timeout, Duration(time.Second))
	def(&s.Objective, Duration(100*time.Millisecond))
	def(&s.BackendTimeout, Duration(30*time.Second))
	def(&s.Seeds, 5)
	s.Gates = max(s.Gates, 1)
	if len(s.Load) == 0 && s.Callers.Count > 0 {
		s.Load = []LoadStep{{}}
	}
	if len(s.Variants) == 0 && len(s.Sweep) == 0 {
		s.Variants = []Variant{{Name: "default"}}
	}
}

// def sets what is zero.
func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Cancels reports whether our gates close the backend side of what their callers
// have left.
func (s *Scenario) Cancels() bool {
	if s.Abandon == "" {
		return s.Backend.Cancelled == Stops
	}
	return s.Abandon == cancels
}

// LongestWait returns how long a request can be on its way.
func (s *Scenario) LongestWait() time.Duration {
	caller := max(s.Timeout, s.Clients.Deadline, s.Clients.Patience.Most)
	return time.Duration(caller + s.BackendTimeout)
}
