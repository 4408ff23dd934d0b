package lab

import (
	"errors"
	"time"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// ReplayOptions say how a trace is replayed.
type ReplayOptions struct {
	// Model of the backend; the zero Model is estimated from the trace.
	Model trace.Model
	// Timeout is when clients give up; 0 = 1 min.
	Timeout time.Duration
	// Objective is the latency up to which an answer is good; 0 = 100 ms.
	Objective time.Duration
	Seed      uint64
}

// Replay plays the arrivals of a trace through a contender in virtual time, and
// returns what would have come of them. Retries are in the trace already: no
// client retries.
func Replay(t *trace.Trace, c Contender, o ReplayOptions) (*measure.Result, error) {
	if len(t.Arrivals) == 0 {
		return nil, errors.New("lab: the trace has no arrivals")
	}
	m := o.Model
	if m.Workers == 0 {
		var err error
		if m, err = t.Model(); err != nil {
			return nil, err
		}
	}
	span := scenario.Duration(t.Span + 1)
	s := &scenario.Scenario{
		Name: "trace", About: "a recording", For: span, Objective: scenario.Duration(o.Objective),
		Demand:  scenario.Demand{Timeout: scenario.Duration(o.Timeout)},
		Backend: scenario.BackendSpec{Workers: m.Workers, Service: scenario.ServiceSpec{Kind: "constant", Mean: scenario.Duration(m.Service)}},
		Windows: []scenario.Window{{Name: "trace", To: span}},
	}
	if o.Timeout <= 0 {
		s.Timeout = scenario.Duration(time.Minute)
	}
	s.SetDefaults()
	w := newWorld(o.Seed)
	g := newGame(w, s, o.Seed)
	g.main, g.noisy = &stream{g: g}, &stream{g: g}
	g.doors = []Door{c.New(w)}
	g.every(watchEvery, g.watch)
	feed(t, g, t.Works(m, random(o.Seed, 5)))
	w.run(time.Duration(s.For) + settle + s.LongestWait())
	return g.result(c.Name, o.Seed), nil
}

// feed plans the arrivals, one after the other.
func feed(t *trace.Trace, g *run, works []float64) {
	rates := map[int64]float64{}
	for i := range t.Arrivals {
		rates[t.Arrivals[i].At/int64(time.Second)] += works[i]
	}
	var next func(i int)
	next = func(i int) {
		a := &t.Arrivals[i]
		g.main.rate = rates[a.At/int64(time.Second)]
		g.launch(&flight{gate: g.anyGate(), key: a.Key, tokens: a.Cost, work: works[i]})
		if i+1 < len(t.Arrivals) {
			g.w.At(t.Arrivals[i+1].At, func() { next(i + 1) })
		}
	}
	g.w.At(t.Arrivals[0].At, func() { next(0) })
}

// Recorded returns what the trace itself shows, in the form of a replay.
func Recorded(t *trace.Trace, objective time.Duration) *measure.Result {
	span := scenario.Duration(t.Span + 1)
	s := &scenario.Scenario{
		Name: "trace", For: span, Objective: scenario.Duration(objective), Windows: []scenario.Window{{Name: "trace", To: span}},
	}
	s.SetDefaults()
	tally := newVirtualTally(s)
	for i := range t.Arrivals {
		a := &t.Arrivals[i]
		e := &ending{born: a.At, latency: a.Waited + a.Latency, tries: 1, verdict: measure.Refused}
		switch {
		case a.Served && a.Outcome == limiter.Dropped:
			e.verdict = measure.Failed
		case a.Served:
			e.verdict = measure.Answered
		}
		tally.ended(e)
	}
	return tally.result("recorded", 0)
}
