package limiter

import (
	"sync/atomic"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter/shed"
)

// ranks is how many classes there are that can be refused.
const ranks = shed.Ranks

// rank is the place of a class that can be refused: 0 goes first.
type rank = shed.Rank

// Classes says who goes first when not everything fits. A request above the line
// of its gate is shed: refused before it spends anything (see package shed).
type Classes struct {
	// Default is the class of requests that name none or an unknown one; 0 =
	// critical.
	Default labels.Class
	// Floor is the share of the requests that get in which shedding leaves to a
	// class, 0 to 1, from critical-plus to sheddable; never less than one request
	// a second where it is not 0.
	Floor [ranks]float64
}

// rank returns the place of a request's class.
func (c *Classes) rank(class labels.Class) rank { return shed.RankOf(class, c.Default) }

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
			plus(&c.by[r][d], &o.by[r][d])
		}
	}
	plus(&c.unknown, &o.unknown)
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
			Class: rank(r).Class(), Admitted: n[decidedAdmitted].Load(), Rejected: n[decidedRejected].Load(), Shed: n[decidedShed].Load(),
		})
	}
	return append(all, ClassCounts{Class: labels.ExemptClass, Exempted: exempted})
}

// classify counts what became of a request, where there are classes.
func (s *partitionSpec) classify(req *Request, why cause) {
	if s.is(classed) && !req.Exempt {
		s.countClass(req, why)
	}
}

// countClass is classify where there are classes.
func (s *partitionSpec) countClass(req *Request, why cause) {
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
	if s.is(classed) && e.how != shed.ByFloor && e.rank.Sheddable() {
		limit -= headroom(limit)
	}
	return limit
}

// entry is how a request comes to ask for a permit. The zero entry is that of all
// where there are no classes.
type entry struct {
	rank rank
	how  shed.Pass
}

// passes asks the line about a request. now may be unread.
func (s *partitionSpec) passes(now int64, req *Request) entry {
	e, p := entry{rank: s.classes.rank(req.Class)}, s.part
	var due bool
	e.how, due = s.shed.Decide(e.rank, p.hash, p.gate.dice)
	switch {
	case e.how == shed.Refused && s.hasRoom() && s.shed.Lapse(p.gate.clock.at(now)):
		e.how = shed.Below
	case due:
		s.shed.Turn(p.gate.clock.at(now), &s.classes.Floor)
	}
	return e
}

// hasRoom reports whether less than half of the limit is held whose line it is.
func (s *partitionSpec) hasRoom() bool {
	if s.is(pooled) {
		return 2*s.part.gate.line.inTotal.Load() < s.whole()
	}
	return 2*s.part.tally.held() < s.bound()
}

// unroomed notes that a request passed the line and found no room. Those who only
// wait behind a few others have found it.
func (s *partitionSpec) unroomed(now int64, e entry, shape *Shape) {
	if shape != nil || s.is(classed) {
		s.tell(now, e, shape)
	}
}

// tell tells of it those who make room.
func (s *partitionSpec) tell(now int64, e entry, shape *Shape) {
	if shape != nil {
		s.part.culprit.unroomed(shape)
	}
	if !s.is(classed) {
		return
	}
	if !s.shed.Watching() {
		s.shed.Begin(s.part.gate.clock.at(now), e.rank, s.part.hash)
	}
	s.shed.Short(e.rank, e.how)
}

// steered moves the line when that is due; now is read.
func (s *partitionSpec) steered(now int64) {
	if s.is(classed) {
		s.shed.Turn(now, &s.classes.Floor)
	}
}
