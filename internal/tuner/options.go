package tuner

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/admitd/admitd/internal/tuner/policy"
	"github.com/admitd/admitd/internal/tuner/signal"
)

// Mode is how far the tuner goes.
type Mode string

// The modes.
const (
	Off    Mode = "off"    // nothing is read or decided
	Advise Mode = "advise" // it says what it would do
	Act    Mode = "act"    // it does it
)

// Defaults of options that are zero.
const (
	defaultCooldown = 10 * time.Second
	defaultTrial    = time.Minute
	defaultEvery    = 5 * time.Second
	defaultTimeout  = 3 * time.Second
)

// Options of [New].
type Options struct {
	Mode     Mode // "" = Advise
	Signals  []Signal
	Policies []Policy
	Trial    TrialOptions
	// Audit takes every record; nil = nobody does. It is called one at a time.
	Audit func(*Record)
	// Log takes what an operator must know; nil = discarded.
	Log *slog.Logger
}

// Signal says what is read, and from where: from a source, or from the gate
// itself.
type Signal struct {
	Name string
	signal.Options

	// Source is read; nil = the gate is.
	Source Source
	// Ingress and Metric of a signal of the gate's own: p50, p99, refused,
	// inFlight, queued or goodput. Latencies are in seconds, refused and
	// goodput per second.
	Ingress, Metric string
	Every           time.Duration // 0 = 5 s; of the gate's own whenever it is looked at
	Timeout         time.Duration // 0 = 3 s, at most Every
}

// Policy says which rule moves which setting how far.
type Policy struct {
	Name    string
	Rule    policy.Rule
	Signals []string // in the order in which the rule takes them
	// Adjust names the setting, or several with a *.
	Adjust Setting
	// Min and Max bound what the policy may set. Required.
	Min, Max float64
	// Step is the largest share of the value per move, in (0, 1]; 0 = any, for
	// rules that have bounds of their own.
	Step float64
	// Cooldown is the least time between two moves of a setting; 0 = 10 s.
	Cooldown time.Duration
}

// TrialOptions say how changes are watched.
type TrialOptions struct {
	// Canary moves the first of several settings first, and the others when
	// it did well.
	Canary bool
	// For is how long a change is watched; 0 = 1 min.
	For time.Duration
	// Ingress whose p99 must stay within Objective; "" = the one that is moved.
	Ingress string
	// Objective is the p99 that must be kept; 0 = what the ingress states.
	Objective time.Duration
}

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = Advise
	}
	if o.Trial.For <= 0 {
		o.Trial.For = defaultTrial
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate reports everything that is wrong.
func (o Options) Validate() error {
	var errs []error
	known := map[string]bool{}
	for _, s := range o.Signals {
		if known[s.Name] {
			errs = append(errs, fmt.Errorf("tuner: two signals are called %q", s.Name))
		}
		known[s.Name] = true
		if err := s.validate(); err != nil {
			errs = append(errs, fmt.Errorf("tuner: signal %q: %w", s.Name, err))
		}
	}
	names := map[string]bool{}
	for _, p := range o.Policies {
		if names[p.Name] {
			errs = append(errs, fmt.Errorf("tuner: two policies are called %q", p.Name))
		}
		names[p.Name] = true
		for _, s := range p.Signals {
			if !known[s] {
				errs = append(errs, fmt.Errorf("tuner: policy %q: there is no signal %q", p.Name, s))
			}
		}
		if !(p.Min >= 0 && p.Min <= p.Max) || math.IsInf(p.Max, 0) {
			errs = append(errs, fmt.Errorf("tuner: policy %q: bounds must hold 0 ≤ min ≤ max (%v, %v)", p.Name, p.Min, p.Max))
		}
		if least := p.Adjust.Least(); p.Min < least {
			errs = append(errs, fmt.Errorf("tuner: policy %q: min must be at least %v, the smallest value of %s that has an effect (%v)", p.Name, least, p.Adjust, p.Min))
		}
		if !(p.Step >= 0 && p.Step <= 1) {
			errs = append(errs, fmt.Errorf("tuner: policy %q: step must be in (0, 1] (%v)", p.Name, p.Step))
		}
	}
	return errors.Join(errs...)
}

func (s *Signal) validate() error {
	if s.Source == nil && !ownMetric(s.Metric) {
		return fmt.Errorf("metric must be p50, p99, refused, inFlight, queued or goodput (%q)", s.Metric)
	}
	return s.Validate()
}

// ownMetric reports whether the gate has a number of that name.
func ownMetric(name string) bool {
	switch name {
	case "p50", "p99", "refused", "inFlight", "queued", "goodput":
		return true
	}
	return false
}

// own reads one of the gate's own numbers.
func (b *bin) own(metric string) float64 {
	switch metric {
	case "p50":
		return b.p50
	case "p99":
		return b.p99
	case "refused":
		return b.refused
	case "inFlight":
		return b.inFlight
	case "queued":
		return b.queued
	default:
		return b.good
	}
}
