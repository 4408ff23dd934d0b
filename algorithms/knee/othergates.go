package knee

import (
	"math"
	"time"

	"github.com/admitd/admitd/algorithms/parts"
)

const (
	// asking is the time between the moments at which gates of a company drain
	// together, ns.
	asking = int64(4 * time.Second)
	// everyone is the time between those at which all of them do, whatever they see,
	// ns. It is a multiple of asking.
	everyone = int64(32 * time.Second)
	// late is how many times the baseline latency must be for a gate to drain that
	// refuses nothing, and lateRefusing for one that does: it has less to lose.
	late, lateRefusing = 1.6, 1.15
	// risen is how much latency must have risen since the last drain to be news.
	risen = 1.5
	// stood is how much latency may fall in a drain that speaks of the backend: what
	// lowers it by more is a queue.
	stood = 0.85
	// beyond and above are how far from the baseline the latency in a drain must be
	// to be believed at once, beside its noise of so many standard errors.
	beyond, above = 1.3, 1.6
)

// company is what a gate sees of others, of which it knows only that they may be
// there. All of them see the same latency, so that whatever they do by it alone they
// do alike: they drain at common moments, and take equal parts of the queue. Its
// zero is that of a gate that has not drained yet, and of one that is not told of
// others.
type otherGates struct {
	asked   int64   // the moment of the last drain
	proven  bool    // the baseline comes from a drain
	doubted bool    // the last drain raised it at once: the next moment tells whether it was right
	latency float64 // ns, smoothed over half a second
	before  float64 // that of the last drain's beginning
	stands  float64 // how many times the latency under drains it is without, smoothed; 0 = unknown
}

// watch takes a window of ordinary work.
func (c *otherGates) watch(w *window) {
	weight := math.Min(1, w.elapsed/5e8) * math.Min(1, w.count()/8)
	c.latency += weight * (w.mean() - c.latency)
}

// queue is how long a queue a gate of a company may have. It follows nothing but
// the latency that all of them see, so that it is the same for all: one that grew
// with the part of the demand that is served would give to those who have. What
// latency has risen by since the last drain may be a slower backend, and counts in
// part.
func (c *otherGates) queue(base float64) float64 {
	ratio := math.Max(1, math.Min(c.latency/base, risen*math.Max(1, c.stands)))
	return leastQueue * math.Pow(1.2/ratio, 5)
}

// note follows how many times the latency without a queue that with one is.
func (c *otherGates) note(ratio float64) {
	c.stands = math.Sqrt(math.Max(1, c.stands) * math.Max(1, ratio))
}

// news reports that latency is not what it was when all last drained.
func (c *otherGates) news(b *baseline) bool {
	return c.proven && c.latency > risen*c.before && c.latency > late*b.mean
}

// every is the distance of the moments at which to drain, ns: two latencies or so
// when there are news, which all see at the same time.
func (c *otherGates) every(w *window, b *baseline) int64 {
	if !c.news(b) {
		return asking
	}
	every := asking / 64
	for float64(every) < 2*w.mean() && every < asking {
		every *= 2
	}
	return every
}

// due reports that this is a moment to drain at.
func (c *otherGates) due(o Options, w *window, b *baseline, refusing bool) bool {
	now, every := w.now+o.Epoch, c.every(w, b)
	moment := now / every * every
	if moment == c.asked || float64(now-moment) > w.mean()/2 {
		return false
	}
	edge := late
	if refusing {
		edge = lateRefusing
	}
	if c.proven && !c.doubted && moment%everyone != 0 && c.latency < edge*b.mean {
		c.before = c.latency
		c.note(1)
		return false
	}
	c.asked, c.before = moment, c.latency
	return true
}

// ask has the gates of a company drain together: what is left of the latency is
// nobody's queue.
func (s *state) ask(o Options, w *window) bool {
	c := &s.others
	c.watch(w)
	s.base.lower(w)
	if !c.due(o, w, &s.base, s.episode.over) {
		return false
	}
	level := math.Min(s.limit, w.latency/w.elapsed) / 4
	if c.proven {
		level = math.Max(level, 0.75*s.flow.rate*s.base.mean)
	}
	s.drain.deep = false
	s.descend(o, level, w.mean(), w.rate())
	s.pace.quota = int64(w.held/w.count()+1) + int64(s.drain.level)
	return true
}

// descend lowers the limit to level, and waits until what came before, and what
// came behind that, is back.
func (s *state) descend(o Options, level, latency, rate float64) {
	s.drain.begin(math.Max(level, float64(o.MinLimit)), latency, rate)
	s.pace = pace{span: 1, quota: int64(2*s.drain.level + 1), calm: -1}
}

// together takes a window under the limit that all have lowered. What throughput
// does says nothing: it is the others' as well. Where latency falls there was a
// queue, and the limit goes lower until it stands; then it is the backend's.
func (s *state) together(o Options, w *window) string {
	d, c, held := &s.drain, &s.others, float64(s.enforced(o))
	x, r, known := d.n/d.t, d.l/math.Max(d.n, 1), s.base.mean
	noise := 1 / math.Sqrt(math.Max(d.n, 1))
	surely := r*(1-above*noise) > beyond*known
	few := d.n < math.Max(8, held) || d.t*d.n < 3*d.l || c.proven && r > beyond*known && !surely && d.n < 32
	switch {
	case few && d.t < 6*d.slow:
		s.pace.span, s.pace.quota = min(int64(6*d.slow-d.t)+1, int64(20*time.Millisecond)), 1
		return parts.WhyDrain
	case d.n == 0:
		s.finish(o)
		return parts.WhyDrain
	}
	below := r*(1+2*noise) < known
	switch {
	case r < known && (!c.proven || below):
		s.base.mean = r
	case r < known:
		s.base.mean += d.n / (d.n + 16) * (r - known)
	}
	lower := held > 1 && (below || r > beyond*known || !c.proven) || r < 0.6*d.slow && (r > beyond*known || !c.proven)
	if lower && r < stood*d.slow {
		s.descend(o, d.level/4, r, x)
		return parts.WhyQueue
	}
	switch {
	case r > known && surely:
		s.base.mean = r
	case r > known:
		s.base.mean += d.n / (d.n + 16) * (r - known)
	}
	return s.parted(o, w, r, surely)
}

// parted ends a drain of all with the latency r. Where it was surely the backend's,
// the limit goes where the demand asks for, until the next moment tells whether
// that was right.
func (s *state) parted(o Options, w *window, r float64, surely bool) string {
	rate := s.flow.rate
	s.finish(o)
	s.flow.rate, s.flow.verified = rate, rate
	s.others.proven, s.others.doubted = true, surely
	s.others.note(s.others.before / r)
	q := s.queue(o)
	s.limit = rate*s.base.mean + q
	if !surely || r < stood*s.drain.slow {
		return parts.WhyQueue
	}
	demand := s.flow.memory
	if w.watched {
		demand = math.Min(s.drain.offered/s.drain.t, demand)
	}
	s.limit = math.Max(s.limit, math.Min(demand*s.base.mean+q, 2.5*s.limit))
	s.trial.grace(w.now, s.base.mean)
	s.episode.waiting = 0
	s.base.remeasured++
	return parts.WhySlower
}
