package limiter

import (
	"sync/atomic"

	"github.com/admitd/admitd/labels"
)

// ranks is how many classes there are that can be refused.
const ranks = 4

// Classes says who goes first when not everything fits. A request above the line
// of its gate is shed: refused before it spends anything (see shedder).
type Classes struct {
	// Default is the class of requests that name none or an unknown one; 0 =
	// critical.
	Default labels.Class
	// Floor is the share of the requests that get in which shedding leaves to a
	// class, 0 to 1, from critical-plus to sheddable; never less than one request
	// a second where it is not 0.
	Floor [ranks]float64
}

// rank is the place of a class that can be refused: 0 goes first.
type rank uint8

// rank returns the place of a request's class. Exempt requests never ask.
func (c *Classes) rank(class labels.Class) rank {
	if class < labels.CriticalPlus || class > labels.Sheddable {
		class = c.Default
	}
	if class < labels.CriticalPlus || class > labels.Sheddable {
		class = labels.Critical
	}
	return rank(class - labels.CriticalPlus)
}

// class is the inverse of [Classes.rank].
func (r rank) class() labels.Class { return labels.CriticalPlus + labels.Class(r) }

// sheddable reports whether a place is kept free of the class.
func (r rank) sheddable() bool { return r >= 2 }

// headroom returns how many of limit permits are out of reach of the sheddable
// classes, so that a spike of critical work finds room before anything is shed:
// one in twenty, at least one. A limit below 4 has none to spare.
func headroom(limit int64) int64 {
	if limit < 4 {
		return 0
	}
	return max(limit/20, 1)
}

// decision is what became of a request, as far as classes are counted.
type decision uint8

const (
	decidedAdmitted decision = iota
	decidedRejected
	decidedShed
	decisions
)

// classCounts count the decisions of each class; they stay zero where the policy
// has no classes.
type classCounts struct {
	by      [ranks][decisions]atomic.Uint64
	unknown atomic.Uint64
}

// add adds what o counted.
func (c *classCounts) add(o *classCounts) {
	for r := range c.by {
		for d := range c.by[r] {
			c.by[r][d].Add(o.by[r][d].Load())
		}
	}
	c.unknown.Add(o.unknown.Load())
}

// ClassCounts are totals of one class since the gate was made.
type ClassCounts struct {
	Class                              labels.Class
	Admitted, Rejected, Shed, Exempted uint64
}

// snapshot reads the counts of every class; exempted is those that are exempt.
func (c *classCounts) snapshot(exempted uint64) []ClassCounts {
	all := make([]ClassCounts, 0, ranks+1)
	for r := range c.by {
		n := &c.by[r]
		all = append(all, ClassCounts{
			Class: rank(r).class(), Admitted: n[decidedAdmitted].Load(), Rejected: n[decidedRejected].Load(), Shed: n[decidedShed].Load(),
		})
	}
	return append(all, ClassCounts{Class: labels.ExemptClass, Exempted: exempted})
}

// classed counts what became of a request, where there are classes.
func (s *partitionSpec) classed(req *Request, why cause) {
	if s.classes == nil || req.Exempt {
		return
	}
	d := decidedRejected
	switch {
	case why == admitted:
		d = decidedAdmitted
	case why >= shedPartition && why <= shedTotal:
		d = decidedShed
	}
	c := &s.part.counts.classes
	c.by[s.classes.rank(req.Class)][d].Add(1)
	if req.Unclear {
		c.unknown.Add(1)
	}
}

// reach returns how many permits of a limit a request may be among.
func (s *partitionSpec) reach(limit int64, e entry) int64 {
	if s.classes == nil || e.how == byFloor || !e.rank.sheddable() {
		return limit
	}
	return limit - headroom(limit)
}

// cohortOf returns the cohort of a partition in an hour, so that a tenant stays
// on one side of the line for that long and nobody for longer.
func cohortOf(hash uint64, hour int64) uint32 {
	z := hash + uint64(hour)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32(z >> 59)
}

// hashOf returns a hash of a partition's name that is the same in every gate.
func hashOf(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// topLevel is the last level: a line there serves everybody.
const topLevel = levels - 1

// levelOf returns the last level that is served wholly.
func levelOf(line uint32) int { return int(line/grain) - 1 }
