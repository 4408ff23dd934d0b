package scenario

import "time"

// Faults is the part of a [Scenario] about what goes wrong.
type Faults struct {
	// Health of the backend, in order of time; healthy before the first.
	Health []HealthStep `yaml:"health"`
	// Pauses of the backend. They are healthy in between.
	Pauses PauseSpec `yaml:"pauses"`
	// Trigger is the span in which something is wrong; reports shade it, and
	// the time to recover counts from its end.
	Trigger Span `yaml:"trigger"`
}

// Span is a stretch of virtual time; the zero Span is empty.
type Span struct {
	From Duration `yaml:"from"`
	To   Duration `yaml:"to"`
}

// HealthStep sets the backend's health from At on.
type HealthStep struct {
	At Duration `yaml:"at"`
	// Over is how long it takes to get there from the health before, evenly; 0
	// = at once.
	Over Duration `yaml:"over"`
	// Slow is a factor on every service time; 0 = 1.
	Slow float64 `yaml:"slow"`
	// Delay is added to every answer without occupying a worker.
	Delay Duration `yaml:"delay"`
	// Frozen backends take up no work.
	Frozen bool `yaml:"frozen"`
	// Workers that the backend has; 0 = as many as at first.
	Workers int `yaml:"workers"`
	// Share of the requests that take the service's other time; absent = as at
	// first.
	Share *float64 `yaml:"share"`
}

// PauseSpec freezes the backend again and again, as a garbage collector does.
type PauseSpec struct {
	Every Duration `yaml:"every"` // 0 = never
	For   Duration `yaml:"for"`
}

// slow returns Slow with its default.
func (h *HealthStep) slow() float64 {
	if h.Slow <= 0 {
		return 1
	}
	return h.Slow
}

// State returns the state that the step asks for.
func (h *HealthStep) State(spec *BackendSpec) Health {
	out := spec.Healthy()
	out.Speed, out.Delay, out.Frozen = h.slow(), time.Duration(h.Delay), h.Frozen
	if h.Workers > 0 {
		out.Workers = h.Workers
	}
	if h.Share != nil {
		out.Share = *h.Share
	}
	return out
}

// HealthSteps returns the changes of health with ramps and pauses made of steps.
func (s *Scenario) HealthSteps() []HealthStep {
	var list []HealthStep
	before := HealthStep{}
	for _, step := range s.Health {
		n := rampLength(step.Over)
		for i := range n {
			share := float64(i+1) / float64(n)
			h := step
			h.At += Duration(float64(step.Over) * float64(i) / float64(n))
			h.Slow = before.slow() + (step.slow()-before.slow())*share
			h.Delay = before.Delay + Duration(float64(step.Delay-before.Delay)*share)
			list = append(list, h)
		}
		before = step
	}
	for at := s.Pauses.Every; at > 0 && at < s.For; at += s.Pauses.Every {
		list = append(list, HealthStep{At: at, Frozen: true}, HealthStep{At: at + s.Pauses.For})
	}
	return list
}

// Health is the state of a backend.
type Health struct {
	Speed   float64       // factor on every service time; 1 = healthy
	Delay   time.Duration // pure delay added to every request
	Frozen  bool          // serves nothing
	Workers int
	Share   float64 // of the service's other part
}
