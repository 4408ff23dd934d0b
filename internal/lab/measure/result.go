package measure

import (
	"time"
)

// Result is what came of one run.
type Result struct {
	Scenario  string `json:"scenario"`
	Variant   string `json:"variant"`
	Contender string `json:"contender"`
	Seed      uint64 `json:"seed"`
	// Windows in the order of the scenario.
	Windows []Window `json:"windows"`
	// Recover is how long after the trigger's end a step of half a second last
	// had less than 0.9 good answers per request, in seconds. 0 = no trigger.
	Recover float64 `json:"recover"`
	// Leaked permits, in flight when all requests had ended.
	Leaked int `json:"leaked"`
	// Partitions in the gates at the end, the largest number in one gate.
	Partitions int `json:"partitions"`
	// Series is what happened over time, in steps of half a second.
	Series []Step `json:"series,omitempty"`
}

// Names returns those of the windows, in their order.
func (r *Result) Names() []string {
	names := make([]string, len(r.Windows))
	for i := range names {
		names[i] = r.Windows[i].Name
	}
	return names
}

// Window is what became of the requests that were due in one window.
type Window struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Capacity float64 `json:"capacity"` // of the healthy backend, requests per second
	// Ceiling is what the best fixed limit does here, good answers per second; 0 =
	// unknown.
	Ceiling float64 `json:"ceiling,omitempty"`

	Offered      int `json:"offered"`
	Good         int `json:"good"` // answered within the objective
	Answered     int `json:"answered"`
	Refused      int `json:"refused"`
	FalseRefused int `json:"falseRefused"` // while the backend could serve all that was offered
	Failed       int `json:"failed"`       // timed out, or the backend's queue was full
	Wasted       int `json:"wasted"`       // attempts that the backend finished when nobody waited for them
	Attempts     int `json:"attempts"`

	// Limit in force on average, over all gates; 0 = none, or unknown.
	Limit float64 `json:"limit,omitempty"`

	// LeastGate is what the gate that answered least answered, over the mean of all; 0
	// where there is one gate.
	LeastGate float64 `json:"leastGate,omitempty"`

	// Latencies of answers, in seconds: of the attempt that was answered. Where
	// nothing was answered, what clients waited in vain.
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`

	// Neighbours are the tenants that are not noisy.
	Neighbours         int     `json:"neighbours,omitempty"`
	NeighboursAnswered int     `json:"neighboursAnswered,omitempty"`
	NeighboursP99      float64 `json:"neighboursP99,omitempty"`
}

// Step is half a second of a run.
type Step struct {
	Offered, Good, Answered, Refused, Failed, Attempts int
	// At the end of the step: the limit, 0 = none; the requests inside the
	// backend; and since when the oldest has waited for a worker, in seconds.
	Limit, Inside int
	QueueAge      float64
}

// Count adds one request that was offered in the step. good is whether its answer
// came within the objective; of other verdicts it does not matter.
func (s *Step) Count(v Verdict, good bool) {
	s.Offered++
	switch v {
	case Answered:
		s.Answered++
		if good {
			s.Good++
		}
	case Refused:
		s.Refused++
	default:
		s.Failed++
	}
}

// An Ending is how one request ended.
type Ending struct {
	Verdict Verdict
	Tries   int
	Good    bool // answered within the objective
	Spare   bool // the backend could serve all that was offered
}

// Count adds one request.
func (r *Window) Count(e Ending) {
	r.Offered++
	r.Attempts += e.Tries
	switch e.Verdict {
	case Answered:
		r.Answered++
		if e.Good {
			r.Good++
		}
	case Refused:
		r.Refused++
		if e.Spare {
			r.FalseRefused++
		}
	default:
		r.Failed++
	}
}

// Verdict is how one request ended, as its sender saw it.
type Verdict uint8

// The verdicts.
const (
	Answered Verdict = iota // served
	Refused                 // refused by a gate, retries included
	Failed                  // an error or a timeout
)

// Grain is the grain of what is kept over time.
const Grain = 500 * time.Millisecond
