package history

import (
	"iter"
	"math"
	"time"

	"github.com/admitd/admitd/limiter"
)

// partition is one partition of an ingress.
type partition struct {
	last    limiter.Brief
	reading uint64  // in which it was seen last; 0 = there is none
	refused float64 // per second, smoothed
	told    uint64  // refusals that [Book.MostRefused] told of
	active  float64 // requests per second, smoothed
	now     second
	rank    int       // among those that are asked most; keptRanks = it is not among them
	series  *Series   // nil = it is not among those that are asked most
	first   time.Time // it was seen
	base    Baseline
	usual   float64  // ns: the latency without load of calm days; 0 = unknown
	changes []Change // of its limit, the oldest first
	causes  *causes  // why it is refused; nil = it is not, or too many others are asked more
}

// causes are why a partition is refused: counts by the position in [limiter.Causes], as of
// the last reading, and the rates per second, smoothed.
type causes struct {
	counts []uint64
	rates  []float64
}

// watchCauses notes why the partition is refused, of one that is asked much.
func (p *partition) watchCauses(of limiter.Refusals, seconds float64) {
	if p.refused <= least || of == nil || p.rank == keptRanks && p.causes == nil {
		p.causes = nil
		return
	}
	n := len(limiter.Causes())
	first := p.causes == nil
	if first {
		p.causes = &causes{counts: make([]uint64, n), rates: make([]float64, n)}
	}
	for i := range n {
		count := of.By(i)
		if !first && seconds > 0 {
			p.causes.rates[i] += smooth * (float64(count-min(p.causes.counts[i], count))/seconds - p.causes.rates[i])
		}
		p.causes.counts[i] = count
	}
}

// cause returns why most of what the partition is refused is; false when it is not known.
func (p *partition) cause() (limiter.Cause, bool) {
	if p.causes == nil {
		return limiter.Cause{}, false
	}
	best := -1
	for i, rate := range p.causes.rates {
		if rate > least && (best < 0 || rate > p.causes.rates[best]) {
			best = i
		}
	}
	if best < 0 {
		return limiter.Cause{}, false
	}
	return limiter.Causes()[best], true
}

// second is what happened in a partition since the last reading, per second.
type second struct {
	admitted, refused, would, dropped float32
	rtt                               time.Duration // 0 = unknown
}

// roll is the partitions of an ingress, each in the place of its number: of a hundred
// thousand none is looked up. What is said of all of them is found in the one pass in
// which they are read.
type partitionTable struct {
	rows    []*[rollRows]partition
	reading uint64 // counts readings
	known   int    // partitions

	charted []*partition // have a history
	ranked  []*partition // the busiest, the first of them first
	limit   int          // of those that were asked, added up
	base    float64      // ns, weighted by how much is asked of each
	usual   float64      // ns, of calm days, weighted alike
	weight  float64      // requests per second of those whose base is known
	most    *partition   // for which most is refused; nil = for nobody
}

// rollRows is how many partitions lie together.
const rollRows = 512

// at returns the place of a number.
func (l *partitionTable) at(number int) *partition {
	for number >= len(l.rows)*rollRows {
		l.rows = append(l.rows, &[rollRows]partition{})
	}
	return &l.rows[number/rollRows][number%rollRows]
}

// all lists the partitions that there are.
func (l *partitionTable) all() iter.Seq[*partition] {
	return func(yield func(*partition) bool) {
		for _, rows := range l.rows {
			for i := range rows {
				if p := &rows[i]; p.reading != 0 && !yield(p) {
					return
				}
			}
		}
	}
}

// find returns the partition of that name, nil when there is none. It looks at all.
func (l *partitionTable) find(name string, key bool) *partition {
	for p := range l.all() {
		if p.last.Name == name && p.last.Key == key {
			return p
		}
	}
	return nil
}

// is reports whether the partition is that of a glance.
func (p *partition) is(name string, key bool) bool {
	return p.reading != 0 && p.last.Name == name && p.last.Key == key
}

// glance takes the partitions' counts.
func (r *record) glance(now time.Time, seconds float64, all iter.Seq[limiter.Brief]) {
	l := &r.roll
	l.reading++
	l.charted, l.ranked = l.charted[:0], l.ranked[:0]
	l.limit, l.base, l.usual, l.weight, l.most = 0, 0, 0, 0, nil
	seen := 0
	for g := range all {
		p := l.at(g.Number)
		if !p.is(g.Name, g.Key) {
			r.forget(p)
			l.known++
			if l.reading == 1 || seconds <= 0 {
				p.last, p.told = g, g.Refused // what was before is no rate
				p.last.Refusals = nil
			}
		}
		if seconds > 0 && l.reading > 1 {
			p.now = p.since(&g, seconds)
			refused := float64(p.now.refused)
			p.refused += smooth * (refused - p.refused)
			p.active += smooth * (refused + float64(p.now.admitted) - p.active)
		}
		r.watchLimit(now, p, &g)
		p.watchBase(g.BaseRTT, seconds)
		p.watchCauses(g.Refusals, seconds)
		g.Refusals = nil // it is of now, and would keep a partition that is no more
		p.last, p.reading = g, l.reading
		l.add(p)
		seen++
	}
	for p := range l.all() {
		if seen == l.known {
			break
		}
		if p.reading != l.reading {
			r.forget(p)
		}
	}
	l.order()
}

// forget makes the place of a partition free.
func (r *record) forget(p *partition) {
	if p.reading == 0 {
		return
	}
	if p.changes != nil {
		r.histories--
	}
	*p = partition{}
	r.roll.known--
}

// since takes what happened since the last glance.
func (p *partition) since(g *limiter.Brief, seconds float64) (s second) {
	per := func(from, to uint64) float32 { return float32(float64(to-min(from, to)) / seconds) }
	s = second{
		admitted: per(p.last.Admitted, g.Admitted), refused: per(p.last.Refused, g.Refused),
		would: per(p.last.WouldRefuse, g.WouldRefuse), dropped: per(p.last.Dropped, g.Dropped),
	}
	if n := g.Succeeded - min(p.last.Succeeded, g.Succeeded); n > 0 && g.Busy > p.last.Busy {
		s.rtt = (g.Busy - p.last.Busy) / time.Duration(n)
	}
	return s
}

// add adds a partition to what is said of all.
func (l *partitionTable) add(p *partition) {
	p.rank = keptRanks
	if p.series != nil {
		l.charted = append(l.charted, p)
	}
	if p.active > least || p.series != nil {
		l.consider(p)
	}
	if p.last.Admitted+p.last.Refused > 0 { // else nobody has used its limit yet
		l.limit += p.last.Limit
	}
	if p.last.BaseRTT > 0 && p.active > least {
		l.weight += p.active
		l.base += p.active * float64(p.last.BaseRTT)
		l.usual += p.active * p.usual
	}
	if m := l.most; p.refused > 0 && (m == nil || p.refused > m.refused || p.refused == m.refused && p.last.Name < m.last.Name) {
		l.most = p
	}
}

// The base of calm days follows one that is lower within a minute, and one that is
// higher within a day: a base that a limit has learned in a brown-out is not calm.
const (
	usualFalls = time.Minute
	usualRises = 24 * time.Hour
)

// watchBase has the base of calm days follow the one that the limit believes in.
func (p *partition) watchBase(base time.Duration, seconds float64) {
	switch now := float64(base); {
	case now <= 0 || seconds <= 0:
	case p.usual == 0:
		p.usual = now
	case now < p.usual:
		p.usual += (now - p.usual) * min(seconds/usualFalls.Seconds(), 1)
	default:
		p.usual += (now - p.usual) * min(seconds/usualRises.Seconds(), 1)
	}
}

// overAll returns the sum of the limits, and the latency without load weighted by
// what the partitions are asked, now and on calm days.
func (r *record) overAll() (limit int, rtt, usual time.Duration) {
	limit = r.roll.limit
	if r.status.Total > 0 {
		limit = min(limit, r.status.Total)
	}
	if r.roll.weight > 0 {
		rtt = time.Duration(math.Round(r.roll.base / r.roll.weight))
		usual = time.Duration(math.Round(r.roll.usual / r.roll.weight))
	}
	return limit, rtt, usual
}

// most returns the partition for which most is refused.
func (r *record) most() (name string, rate float64) {
	if p := r.roll.most; p != nil {
		return p.last.Name, p.refused
	}
	return "", 0
}
