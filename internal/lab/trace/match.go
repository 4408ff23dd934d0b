package trace

import (
	"cmp"
	"slices"
	"time"
)

// session matches the ends of a session with its arrivals: a permit that was
// granted at once began at the very moment of an arrival; those that waited
// began later, and are taken for the latest arrivals before them that are left:
// the others were refused, or waited in vain.
func (d *decoder) session() {
	arrivals := d.out.Arrivals[d.open:]
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(d.ends, func(a, b record) int { return cmp.Compare(a.start, b.start) })
	var waited []record
	i := 0
	for _, e := range d.ends {
		for i < len(arrivals) && arrivals[i].At < e.start {
			i++
		}
		if i < len(arrivals) && arrivals[i].At == e.start {
			arrivals[i].serve(&e)
			i++
			continue
		}
		waited = append(waited, e)
	}
	var left []int // arrivals before the permit that are not served
	i = 0
	for _, e := range waited {
		for ; i < len(arrivals) && arrivals[i].At <= e.start; i++ {
			if !arrivals[i].Served {
				left = append(left, i)
			}
		}
		if n := len(left); n > 0 {
			arrivals[left[n-1]].serve(&e)
			left = left[:n-1]
		}
	}
	d.open, d.ends = len(d.out.Arrivals), d.ends[:0]
}

// serve notes that an arrival was served.
func (a *Arrival) serve(e *record) {
	a.Served, a.Latency, a.Outcome = true, e.latency, e.outcome
	a.Waited = time.Duration(e.start - a.At)
}
