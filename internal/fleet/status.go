package fleet

import (
	"time"

	"github.com/admitd/admitd/status"
)

// maxListed bounds the quotas that a status lists.
const maxListed = 200

// Brief returns how this gate stands in its group, without gates and quotas.
func (g *Group) Brief() status.Fleet {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.briefLocked()
}

// briefLocked is [Group.Brief] with the group locked.
func (g *Group) briefLocked() status.Fleet {
	now, b := g.o.Now(), g.book
	s := status.Fleet{
		Group: g.o.Name, Gate: b.name, ID: b.id, Mode: string(b.mode(now)), Fallback: string(b.Fallback), Problem: g.failure,
		Gates: b.live, Known: b.known(), IntervalMS: ms(int64(b.pace)), LeaseMS: ms(int64(b.lease())), AgeSeconds: time.Duration(now - b.heard).Seconds(),
		Calls: g.calls[1], Failures: g.calls[0], CallMS: ms(int64(g.took)), Members: b.members, QuotaCount: len(b.order),
		Quotas: []status.FleetQuota{},
	}
	if !b.ever {
		s.Gates = b.Gates
	}
	if s.Problem == "" {
		s.Problem = b.problem()
	}
	s.Differs, s.Pending = b.rates.differs(now), b.rates.pending()
	return s
}

// Status returns how this gate stands in its group.
func (g *Group) Status() status.Fleet {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, now, b := g.briefLocked(), g.o.Now(), g.book
	b.listed = now + int64(listFor)
	for _, name := range b.order[:min(len(b.order), maxListed)] {
		q := b.quotas[name]
		row := status.FleetQuota{
			Name: name, Label: q.label, PerSecond: q.rate, Share: q.share, Demand: max(q.demand, 0), Stock: q.level, Gates: q.sharers,
			Epoch: q.epoch, Mode: string(q.mode), LeaseMS: max(ms(q.ends-now), 0),
		}
		if own := q.bucket.Rate().PerSecond; row.PerSecond == 0 {
			row.PerSecond = own
		} else if row.PerSecond != own {
			row.OwnPerSecond = own
		}
		s.Quotas = append(s.Quotas, row)
	}
	return s
}

// listFor is how long after a status all gates are listed by the group.
const listFor = 10 * time.Second

// ms spells nanoseconds in milliseconds.
func ms(ns int64) float64 { return float64(ns) / 1e6 }

// Sum is what metrics may tell of the quotas of one label.
type Sum struct {
	Label string
	Share float64 // tokens per second
}

// Sums adds the shares up by label, in the order in which they came.
func (g *Group) Sums() []Sum {
	g.mu.Lock()
	defer g.mu.Unlock()
	var sums []Sum
	at := map[string]int{}
	for _, name := range g.book.order {
		q := g.book.quotas[name]
		i, known := at[q.label]
		if !known {
			i = len(sums)
			at[q.label] = i
			sums = append(sums, Sum{Label: q.label})
		}
		sums[i].Share += q.share
	}
	return sums
}

// Mode returns what the gate goes by now, and what the last call failed for, if
// it did.
func (g *Group) Mode() (m Mode, problem string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if problem = g.failure; problem == "" {
		problem = g.book.problem()
	}
	return g.book.mode(g.o.Now()), problem
}

// Differs lists the rates of this gate's configuration that are not in force, since
// the group was told others, and the names of those that the group has not taken.
func (g *Group) Differs() (rates []status.FleetRate, pending []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.book.rates.differs(g.o.Now()), g.book.rates.pending()
}
