package lab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Model is what a trace shows of the backend behind the gate.
type Model struct {
	// Workers that serve at a time, as far as the trace shows.
	Workers int
	// Service is the mean time of a request that does not wait for a worker.
	Service time.Duration
	// Saturated is false when throughput was still growing with the requests in
	// flight, where there were most: the backend may then have more workers.
	Saturated bool
}

// Bounds of what the model is made from.
const (
	fewestServed  = 100 // below which a trace shows nothing
	fewestPerBin  = 20
	saturatedGain = 1.1 // growth of throughput from half of the in flight to all of it
)

// served is an arrival that was answered, and how many were inside with it.
type served struct {
	arrival int
	start   int64
	inside  int
}

// Model estimates the backend. By Little's law, n requests inside that take L
// each leave at n/L per second: the largest such rate is the capacity, and the
// latency where few are inside is the service time; their product is the
// number of workers.
func (t *Trace) Model() (Model, error) {
	list := t.inside()
	if len(list) < fewestServed {
		return Model{}, fmt.Errorf("lab: %d requests were answered in the trace; at least %d are needed", len(list), fewestServed)
	}
	slices.SortStableFunc(list, func(a, b served) int { return cmp.Compare(a.inside, b.inside) })
	mean := func(part []served) (latency, inside float64) {
		for _, s := range part {
			latency += t.Arrivals[s.arrival].Latency.Seconds() / float64(len(part))
			inside += float64(s.inside) / float64(len(part))
		}
		return max(latency, 1e-9), inside
	}
	bin := max(len(list)/50, fewestPerBin)
	service, _ := mean(list[:max(len(list)/10, bin)])
	best, middle := 0.0, 0.0
	most := float64(list[len(list)-1].inside)
	for from := 0; from+bin <= len(list); from += bin {
		latency, inside := mean(list[from : from+bin])
		best = max(best, inside/latency)
		if inside <= most/2 {
			middle = max(middle, inside/latency)
		}
	}
	return Model{
		Workers: max(int(math.Round(best*service)), 1), Service: time.Duration(service * 1e9),
		Saturated: middle > 0 && best < saturatedGain*middle,
	}, nil
}

// inside returns the answered requests, in order of their start.
func (t *Trace) inside() []served {
	var list []served
	var leave []int64
	for i := range t.Arrivals {
		a := &t.Arrivals[i]
		if !a.Served {
			continue
		}
		start := a.At + int64(a.Waited)
		leave = append(leave, start+int64(a.Latency))
		list = append(list, served{arrival: i, start: start})
	}
	slices.SortStableFunc(list, func(a, b served) int { return cmp.Compare(a.start, b.start) })
	slices.Sort(leave)
	gone := 0
	for i := range list {
		for gone < len(leave) && leave[gone] <= list[i].start {
			gone++
		}
		list[i].inside = max(i+1-gone, 1)
	}
	return slices.DeleteFunc(list, func(s served) bool { return t.Arrivals[s.arrival].Outcome != limiter.Success })
}

// works returns what each arrival asks of the model's backend, as a multiple of
// its mean service time: its latency less the share that those before it took.
// Of those that were not answered it is drawn from the others.
func (t *Trace) works(m Model, seed uint64) []float64 {
	works := make([]float64, len(t.Arrivals))
	var known []float64
	for _, s := range t.inside() {
		share := float64(m.Workers) / float64(max(s.inside, m.Workers))
		works[s.arrival] = max(float64(t.Arrivals[s.arrival].Latency)*share/float64(m.Service), 1e-6)
		known = append(known, works[s.arrival])
	}
	draw := random(seed, 5)
	for i := range works {
		if works[i] == 0 {
			works[i] = known[draw.IntN(len(known))]
		}
	}
	return works
}

// ReplayOptions say how a trace is replayed.
type ReplayOptions struct {
	// Model of the backend; the zero Model is estimated from the trace.
	Model Model
	// Timeout is when clients give up; 0 = 1 min.
	Timeout time.Duration
	// Objective is the latency up to which an answer is good; 0 = 100 ms.
	Objective time.Duration
	Seed      uint64
}

// Replay plays the arrivals of a trace through a contender in virtual time, and
// returns what would have come of them. Retries are in the trace already: no
// client retries.
func (t *Trace) Replay(c Contender, o ReplayOptions) (*Result, error) {
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
	span := Duration(t.Span + 1)
	s := &Scenario{
		Name: "trace", About: "a recording", For: span, Timeout: Duration(o.Timeout), Objective: Duration(o.Objective),
		Backend: BackendSpec{Workers: m.Workers, Service: ServiceSpec{Kind: "constant", Mean: Duration(m.Service)}},
		Windows: []Window{{Name: "trace", To: span}},
	}
	if o.Timeout <= 0 {
		s.Timeout = Duration(time.Minute)
	}
	s.setDefaults()
	w := newWorld(o.Seed)
	g := newGame(w, s, o.Seed)
	g.main, g.noisy = &stream{g: g}, &stream{g: g}
	g.doors = []Door{c.New(w)}
	g.every(watchEvery, g.watch)
	t.feed(g, t.works(m, o.Seed))
	w.run(time.Duration(s.For) + settle + s.longestWait())
	return g.result(c.Name, o.Seed), nil
}

// feed plans the arrivals, one after the other.
func (t *Trace) feed(g *game, works []float64) {
	rates := map[int64]float64{}
	for i := range t.Arrivals {
		rates[t.Arrivals[i].At/int64(time.Second)] += works[i]
	}
	var next func(i int)
	next = func(i int) {
		a := &t.Arrivals[i]
		g.main.rate = rates[a.At/int64(time.Second)]
		g.launch(&flight{key: a.Key, tokens: a.Cost, work: works[i]})
		if i+1 < len(t.Arrivals) {
			g.w.At(t.Arrivals[i+1].At, func() { next(i + 1) })
		}
	}
	g.w.At(t.Arrivals[0].At, func() { next(0) })
}

// Recorded returns what the trace itself shows, in the form of a replay.
func (t *Trace) Recorded(objective time.Duration) *Result {
	span := Duration(t.Span + 1)
	s := &Scenario{
		Name: "trace", For: span, Objective: Duration(objective), Windows: []Window{{Name: "trace", To: span}},
	}
	s.setDefaults()
	tally := newVirtualTally(s)
	for i := range t.Arrivals {
		a := &t.Arrivals[i]
		e := &ending{born: a.At, latency: a.Waited + a.Latency, tries: 1, verdict: Refused}
		switch {
		case a.Served && a.Outcome == limiter.Dropped:
			e.verdict = Failed
		case a.Served:
			e.verdict = Answered
		}
		tally.ended(e)
	}
	return tally.result("recorded", 0)
}
