package lab

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/admitd/admitd/limiter"
)

// seriesStep is the grain of what is kept over time.
const seriesStep = 500 * time.Millisecond

// watchEvery is how often limit, in flight and queue age are sampled.
const watchEvery = 100 * time.Millisecond

// recovered is the share of good answers in a step from which on a run counts
// as recovered.
const recovered = 0.9

// Result is what came of one run.
type Result struct {
	Scenario  string `json:"scenario"`
	Variant   string `json:"variant"`
	Contender string `json:"contender"`
	Seed      uint64 `json:"seed"`
	// Windows in the order of the scenario.
	Windows []WindowResult `json:"windows"`
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

// WindowResult is what became of the requests that were due in one window.
type WindowResult struct {
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

// virtualTally counts a run.
type virtualTally struct {
	s          *Scenario
	windows    []WindowResult
	latencies  []*hdrhistogram.Histogram
	neighbours []*hdrhistogram.Histogram // nil without a noisy tenant
	series     []Step
}

func newVirtualTally(s *Scenario) *virtualTally {
	t := &virtualTally{s: s, series: make([]Step, time.Duration(s.For)/seriesStep+1)}
	for _, w := range s.Windows {
		t.windows = append(t.windows, WindowResult{
			Name: w.Name, Seconds: time.Duration(w.To - w.From).Seconds(), Capacity: s.Backend.Capacity(),
			Ceiling: s.ceilings[w.Name].Good,
		})
		t.latencies = append(t.latencies, newHistogram())
		if s.Tenants.Noisy > 0 {
			t.neighbours = append(t.neighbours, newHistogram())
		}
	}
	return t
}

// newHistogram counts microseconds.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// step returns the step of a moment; what comes later counts with the last.
func (t *virtualTally) step(now int64) *Step {
	return &t.series[min(int(now/int64(seriesStep)), len(t.series)-1)]
}

// watch notes the state of the doors and the backend.
func (t *virtualTally) watch(now int64, limit, inside int, age time.Duration) {
	s := t.step(now - 1)
	s.Limit, s.Inside, s.QueueAge = limit, inside, age.Seconds()
}

// ending is how one request ended.
type ending struct {
	born    int64 // ns since the start, when it was due
	latency time.Duration
	tries   int
	noisy   bool
	spare   bool // the backend could serve all that was offered
	verdict Verdict
}

// ended counts a request by the moment at which it was due.
func (t *virtualTally) ended(e *ending) {
	us := max(e.latency.Microseconds(), 1)
	good := e.verdict == Answered && e.latency <= time.Duration(t.s.Objective)
	t.step(e.born).count(e.verdict, good)
	for i := range t.windows {
		w := &t.s.Windows[i]
		if e.born < int64(w.From) || e.born >= int64(w.To) {
			continue
		}
		r := &t.windows[i]
		r.count(e, good)
		if e.verdict == Answered {
			_ = t.latencies[i].RecordValue(us) // cut at a minute
		}
		if t.neighbours != nil && !e.noisy {
			r.Neighbours++
			if e.verdict == Answered {
				r.NeighboursAnswered++
				_ = t.neighbours[i].RecordValue(us) // as above
			}
		}
	}
}

// wasted counts work that was finished for nobody, by the moment at which its
// request was due.
func (t *virtualTally) wasted(born int64) {
	for i := range t.windows {
		if w := &t.s.Windows[i]; born >= int64(w.From) && born < int64(w.To) {
			t.windows[i].Wasted++
		}
	}
}

// count adds one request to a step.
func (s *Step) count(v Verdict, good bool) {
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

// count adds one request to a window.
func (r *WindowResult) count(e *ending, good bool) {
	r.Offered++
	r.Attempts += e.tries
	switch e.verdict {
	case Answered:
		r.Answered++
		if good {
			r.Good++
		}
	case Refused:
		r.Refused++
		if e.spare {
			r.FalseRefused++
		}
	default:
		r.Failed++
	}
}

// result gathers the run.
func (g *game) result(contender string, seed uint64) *Result {
	r := g.tally.result(contender, seed)
	for _, d := range g.doors {
		if s, ok := d.(interface{ Status() limiter.Status }); ok {
			status := s.Status()
			r.Leaked += status.InFlight
			r.Partitions = max(r.Partitions, len(status.Partitions))
		}
	}
	return r
}

// result sums up what was counted.
func (t *virtualTally) result(contender string, seed uint64) *Result {
	quantile := func(h *hdrhistogram.Histogram, q float64) float64 {
		return (time.Duration(h.ValueAtQuantile(q)) * time.Microsecond).Seconds()
	}
	for i := range t.windows {
		w := &t.windows[i]
		w.P50, w.P99, w.P999 = quantile(t.latencies[i], 50), quantile(t.latencies[i], 99), quantile(t.latencies[i], 99.9)
		if t.neighbours != nil {
			w.NeighboursP99 = quantile(t.neighbours[i], 99)
		}
		vain := time.Duration(max(t.s.Timeout, t.s.Clients.Patience.Most)).Seconds()
		if w.Answered == 0 {
			w.P50, w.P99, w.P999 = vain, vain, vain
		}
		if w.NeighboursAnswered == 0 && w.Neighbours > 0 {
			w.NeighboursP99 = vain
		}
	}
	return &Result{
		Scenario: t.s.Name, Variant: t.s.Variants[0].Name, Contender: contender, Seed: seed,
		Windows: t.windows, Series: t.series, Recover: t.recover(),
	}
}

// recover returns how many seconds after the trigger's end the last bad step
// ended.
func (t *virtualTally) recover() float64 {
	end := time.Duration(t.s.Trigger.To)
	if end == 0 {
		return 0
	}
	last := time.Duration(0)
	for i, s := range t.series[:len(t.series)-1] {
		at := time.Duration(i) * seriesStep
		if at >= end && float64(s.Good) < recovered*float64(s.Offered) {
			last = at + seriesStep - end
		}
	}
	return last.Seconds()
}
