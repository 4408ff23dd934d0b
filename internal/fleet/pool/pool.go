// Package pool makes one adaptive limit of those of several gates. Each gate
// tells what its permits taught it; one of them leads and feeds all of it to the
// algorithm, as if there were one gate; and the limit that comes out is split by
// demand. [Limit] is a gate's end of it.
//
// How rows travel from gate to gate is not its business: a [Board] is what a
// gate was told. It reads no clock.
package pool

import (
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Algorithm is what finds a limit from samples; see limiter.Limit.
type Algorithm interface {
	Current() int
	Observe(now int64, latency time.Duration, inFlight int, dropped bool)
}

// Options are what a [Limit] is made of. Make is required.
type Options struct {
	// Make returns the algorithm with an initial limit, 0 = its own, for one of
	// so many gates, which is not to go below least, 0 = its own least.
	Make func(initial, gates, least int) Algorithm
	// Interval is the time between two exchanges; 0 = 200 ms.
	Interval time.Duration
	// Gates are expected before any was seen; 0 = 1.
	Gates int
	// Exact says that the limit is a number that somebody chose, and not one that was
	// found: the parts of all gates are never more, unless there are more gates.
	Exact bool
	// Rand orders the samples of one exchange; nil = math/rand/v2.
	Rand *rand.Rand
}

// Verdict is what the leader found.
type Verdict struct {
	Fence uint64 // of the leader; a higher one wins
	Limit int    // of all gates together; 0 = none was found yet
	Base  time.Duration
}

// Board is what a gate is told at an exchange.
type Board struct {
	Leads   bool
	Fence   uint64 // of this gate, if it leads
	Turn    int    // counts up slowly, the same for all gates
	Verdict Verdict
	Rows    []Row // of the gates that live, this one included, in one order for all
}

// Limit is one gate's part of a limit that several gates share. It implements
// limiter.Limit, and is safe for concurrent use.
type Limit struct {
	o       Options
	name    string // of the algorithm
	current atomic.Int64
	base    atomic.Int64
	tally   tally
	alone   atomic.Pointer[Algorithm] // learns while the group is silent; nil = it is not

	mu      sync.Mutex // guards the fields below; never held across a wait
	demand  func() (offered, refused uint64)
	whole   limitOfAll
	verdict Verdict
	gates   int   // that there are, or are expected
	heard   int64 // monotonic ns of the last exchange; 0 = none
	begun   int64
	want    wanted
	leads   bool
	known   int // gates whose parts are kept back, those that are there included
	claim   int // permits that the board is told of, and are taken when it shows them
}

// New returns a limit of one permit that waits for its group.
func New(o Options) *Limit {
	if o.Interval <= 0 {
		o.Interval = 200 * time.Millisecond
	}
	o.Gates = max(o.Gates, 1)
	l := &Limit{o: o, gates: o.Gates}
	if a, ok := o.Make(0, 1, 0).(interface{ Algorithm() string }); ok {
		l.name = a.Algorithm()
	}
	l.current.Store(1)
	return l
}

// Current returns the permits that this gate may hold. It is one or two atomic
// loads.
func (l *Limit) Current() int {
	if a := l.alone.Load(); a != nil {
		return (*a).Current()
	}
	return int(l.current.Load())
}

// Observe learns from one permit that ended.
func (l *Limit) Observe(now int64, latency time.Duration, inFlight int, dropped bool) {
	l.tally.note(latency, inFlight, dropped)
	if a := l.alone.Load(); a != nil {
		(*a).Observe(now, latency, inFlight, dropped)
	}
}

// Watch tells the limit where to read the demand, once.
func (l *Limit) Watch(demand func() (offered, refused uint64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.demand = demand
}

// Recall takes the latency without load that is known from before.
func (l *Limit) Recall(base time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict.Base == 0 {
		l.verdict.Base = base
		l.base.Store(int64(base))
	}
}

// Algorithm returns the name of what finds the limit.
func (l *Limit) Algorithm() string { return l.name }

// Shared says that refusals are of a limit of several gates.
func (*Limit) Shared() bool { return true }

// BaseRTT returns the group's latency without load, 0 = unknown.
func (l *Limit) BaseRTT() time.Duration { return time.Duration(l.base.Load()) }

// WhyFleet is why a limit changes that its group shares out.
const WhyFleet = "fleet"

// Why returns, in one word, why the limit last changed: the group shared it out, or
// what the gate's own algorithm says while the group is silent. Empty before the
// group was heard.
func (l *Limit) Why() string {
	if a := l.alone.Load(); a != nil {
		if told, ok := (*a).(interface{ Why() string }); ok && told.Why() != "" {
			return told.Why()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict.Limit == 0 {
		return ""
	}
	return WhyFleet
}

// State returns the inner state, for operators.
func (l *Limit) State() map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := map[string]float64{
		"fleet_limit": float64(l.verdict.Limit), "fleet_share": float64(l.current.Load()), "fleet_gates": float64(l.gates),
		"fleet_leads": 0, "fleet_alone": 0, "fleet_wanted": l.want.permits,
	}
	if l.leads {
		s["fleet_leads"] = 1
	}
	if l.alone.Load() != nil {
		s["fleet_alone"] = 1
	}
	if a, ok := l.whole.algorithm.(interface{ State() map[string]float64 }); ok {
		maps.Copy(s, a.State())
	}
	return s
}

// Row returns what to tell the group at now, monotonic nanoseconds.
func (l *Limit) Row(now int64, id string) Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.tally.read()
	if l.demand != nil {
		s.Offered, s.Refused = l.demand()
	}
	l.want.see(now, &s)
	return Row{ID: id, Share: max(l.Current(), l.claim), Want: l.want.permits, Held: l.want.held(), Samples: s}
}

// Hear takes what the board told at now about an exchange that began at sent. When
// there is news the gate exchanges once more, and calls [Limit.HearAgain]: who
// leads writes v there, and who may hold more permits than before says so before
// it takes them, or two gates would take the same.
func (l *Limit) Hear(now, sent int64, id string, b *Board) (v Verdict, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard, l.leads = sent, b.Leads
	l.gates = max(len(b.Rows), l.known, 1)
	if b.Verdict.Limit > 0 {
		l.verdict = b.Verdict
	}
	if b.Leads {
		before := l.verdict
		l.whole.lead(l, b)
		l.whole.feed(now, l, b.Rows)
		l.verdict = l.whole.verdict(b.Fence)
		if l.verdict.Base == 0 {
			l.verdict.Base = before.Base
		}
		news = l.verdict.Limit != before.Limit || before.Fence != b.Fence
	} else {
		l.whole = limitOfAll{}
	}
	if l.verdict.Limit > 0 && l.take(id, b) {
		news = true
	}
	l.base.Store(int64(l.verdict.Base))
	return l.verdict, news
}

// Spare is how many permits n gates have on top of their limit. The permits of
// one gate are idle while another one is asked: half a permit of each, and one,
// make up for it.
func Spare(n int) int {
	if n < 2 {
		return 0
	}
	return n/2 + 1
}

// HearAgain takes what the board told at the second exchange.
func (l *Limit) HearAgain(id string, b *Board) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict.Limit > 0 {
		l.take(id, b)
	}
}

// take sets the gate's part of the limit: its share, as far as the others have
// let go of theirs. It reports whether there is more to be had, which the board
// must show first.
func (l *Limit) take(id string, b *Board) (more bool) {
	wants := make([]float64, len(b.Rows))
	at, others := -1, 0
	for i := range b.Rows {
		wants[i] = b.Rows[i].Want
		if b.Rows[i].ID == id {
			at = i
		} else {
			others += b.Rows[i].Share
		}
	}
	if at < 0 {
		return false
	}
	total := l.verdict.Limit
	if !l.o.Exact {
		total += Spare(len(wants))
	}
	if l.known > len(wants) {
		total = max(total*len(wants)/l.known, 1) // those who are silent go on with their parts
	}
	share := Split(total, wants, b.Turn)[at]
	share = min(share, max(total-others, 1))
	has := l.Current()
	l.claim = share
	l.current.Store(int64(min(share, max(has, b.Rows[at].Share))))
	l.alone.Store(nil)
	return share > int(l.current.Load())
}

// Set changes the interval, and the gates that are expected where none was heard
// of. known is how many gates there are, those included that cannot be heard: their
// parts are kept back.
func (l *Limit) Set(interval time.Duration, gates, known int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.Interval, l.known = interval, known
	if l.heard == 0 {
		l.gates = max(gates, 1)
	}
}

// silence is how many intervals without an exchange a share holds.
const silence = 3

// Tick is called every now and then: when nothing was heard of the group for
// three intervals the gate goes on alone, from its share, as one of the gates
// there were.
func (l *Limit) Tick(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun == 0 {
		l.begun = now
	}
	if now-max(l.heard, l.begun) < silence*int64(l.o.Interval) || l.alone.Load() != nil {
		return
	}
	initial := 0
	if l.verdict.Limit > 0 {
		// Parts are made of the initial limit, as of all others.
		initial = int(l.current.Load()) * l.gates
	}
	a := l.o.Make(initial, l.gates, 0)
	if l.o.Exact {
		a = capped{a, max(l.o.Make(0, 1, 0).Current()/l.gates, 1)}
	}
	if r, ok := a.(interface{ Recall(base time.Duration) }); ok && l.verdict.Base > 0 {
		r.Recall(l.verdict.Base)
	}
	if w, ok := a.(interface {
		Watch(demand func() (offered, refused uint64))
	}); ok && l.demand != nil {
		w.Watch(l.demand)
	}
	l.leads, l.whole = false, limitOfAll{}
	l.alone.Store(&a)
}

// capped is an algorithm with a bound.
type capped struct {
	Algorithm

	most int
}

// Current returns the limit of the algorithm, and not more than the bound.
func (c capped) Current() int { return min(c.Algorithm.Current(), c.most) }

// wanted measures how many permits the gate could use: what it is asked for in
// the time that a permit is held.
type wanted struct {
	permits float64
	latency float64 // ns, smoothed
	at      int64
	last    Samples
	mean    float64 // in flight
}

// wantedOver is the time over which demand is smoothed.
const wantedOver = 400 * time.Millisecond

// see takes the counts as of now.
func (w *wanted) see(now int64, s *Samples) {
	if w.at == 0 {
		w.at, w.last = now, *s
		return
	}
	elapsed := float64(now - w.at)
	if elapsed < float64(10*time.Millisecond) {
		return
	}
	d := s.since(&w.last)
	w.at, w.last = now, *s
	weight := min(elapsed/float64(wantedOver), 1)
	if n := d.count(); n > 0 {
		w.latency = blend(w.latency, float64(d.Latency)/float64(n), weight)
		w.mean = float64(d.Held) / float64(n)
	} else {
		w.mean = 0
	}
	w.permits = blend(w.permits, max(float64(d.Offered)/elapsed*w.latency, w.mean), weight)
}

// held returns about how many permits are held.
func (w *wanted) held() int { return int(w.mean + 0.5) }

// blend moves old towards x; from nothing at once.
func blend(old, x, weight float64) float64 {
	if old == 0 {
		return x
	}
	return old + weight*(x-old)
}
