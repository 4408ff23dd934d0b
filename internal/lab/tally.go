package lab

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/limiter"
)

// watchEvery is how often limit, in flight and queue age are sampled.
const watchEvery = 100 * time.Millisecond

// recovered is the share of good answers in a step from which on a run counts
// as recovered.
const recovered = 0.9

// virtualTally counts a run.
type virtualTally struct {
	s          *scenario.Scenario
	windows    []measure.Window
	latencies  []*hdrhistogram.Histogram
	neighbours []*hdrhistogram.Histogram // nil without a noisy tenant
	limits     []mean                    // of each window
	gates      [][]int                   // answered in each window, by each gate
	series     []measure.Step
}

// mean is that of what was added.
type mean struct {
	sum float64
	n   int
}

// value returns the mean, 0 of nothing.
func (m mean) value() float64 { return m.sum / float64(max(m.n, 1)) }

func newVirtualTally(s *scenario.Scenario) *virtualTally {
	t := &virtualTally{s: s, series: make([]measure.Step, time.Duration(s.For)/measure.Grain+1)}
	for _, w := range s.Windows {
		t.windows = append(t.windows, measure.Window{
			Name: w.Name, Seconds: time.Duration(w.To - w.From).Seconds(), Capacity: s.Backend.Capacity(),
			Ceiling: s.Ceilings()[w.Name].Good,
		})
		t.latencies = append(t.latencies, newHistogram())
		t.limits = append(t.limits, mean{})
		t.gates = append(t.gates, make([]int, max(s.Gates, 1)))
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
func (t *virtualTally) step(now int64) *measure.Step {
	return &t.series[min(int(now/int64(measure.Grain)), len(t.series)-1)]
}

// watch notes the state of the doors and the backend.
func (t *virtualTally) watch(now int64, limit, inside int, age time.Duration) {
	s := t.step(now - 1)
	s.Limit, s.Inside, s.QueueAge = limit, inside, age.Seconds()
	for i := range t.limits {
		if w := &t.s.Windows[i]; now >= int64(w.From) && now < int64(w.To) {
			t.limits[i].sum += float64(limit)
			t.limits[i].n++
		}
	}
}

// ending is how one request ended.
type ending struct {
	born    int64 // ns since the start, when it was due
	latency time.Duration
	tries   int
	gate    int // that it came to
	noisy   bool
	spare   bool // the backend could serve all that was offered
	verdict measure.Verdict
}

// ended counts a request by the moment at which it was due.
func (t *virtualTally) ended(e *ending) {
	us := max(e.latency.Microseconds(), 1)
	good := e.verdict == measure.Answered && e.latency <= time.Duration(t.s.Objective)
	t.step(e.born).Count(e.verdict, good)
	for i := range t.windows {
		w := &t.s.Windows[i]
		if e.born < int64(w.From) || e.born >= int64(w.To) {
			continue
		}
		r := &t.windows[i]
		r.Count(measure.Ending{Verdict: e.verdict, Tries: e.tries, Good: good, Spare: e.spare})
		if e.verdict == measure.Answered {
			_ = t.latencies[i].RecordValue(us) // cut at a minute
			t.gates[i][e.gate]++
		}
		if t.neighbours != nil && !e.noisy {
			r.Neighbours++
			if e.verdict == measure.Answered {
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

// result gathers the run.
func (g *run) result(contender string, seed uint64) *measure.Result {
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
func (t *virtualTally) result(contender string, seed uint64) *measure.Result {
	quantile := func(h *hdrhistogram.Histogram, q float64) float64 {
		return (time.Duration(h.ValueAtQuantile(q)) * time.Microsecond).Seconds()
	}
	for i := range t.windows {
		w := &t.windows[i]
		w.Limit = t.limits[i].value()
		if n := len(t.gates[i]); n > 1 {
			w.LeastGate = float64(slices.Min(t.gates[i])*n) / float64(max(w.Answered, 1))
		}
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
	return &measure.Result{
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
		at := time.Duration(i) * measure.Grain
		if at >= end && float64(s.Good) < recovered*float64(s.Offered) {
			last = at + measure.Grain - end
		}
	}
	return last.Seconds()
}
