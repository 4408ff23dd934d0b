package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
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

// Works returns what each arrival asks of the model's backend, as a multiple of
// its mean service time: its latency less the share that those before it took.
// Of those that were not answered it is drawn from the others; 1 where there are
// none.
func (t *Trace) Works(m Model, draw *rand.Rand) []float64 {
	works := make([]float64, len(t.Arrivals))
	var known []float64
	for _, s := range t.inside() {
		share := float64(m.Workers) / float64(max(s.inside, m.Workers))
		works[s.arrival] = max(float64(t.Arrivals[s.arrival].Latency)*share/float64(m.Service), 1e-6)
		known = append(known, works[s.arrival])
	}
	if len(known) == 0 {
		known = []float64{1}
	}
	for i := range works {
		if works[i] == 0 {
			works[i] = known[draw.IntN(len(known))]
		}
	}
	return works
}
