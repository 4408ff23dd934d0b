package shadow

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/admitd/admitd/limiter"
)

// MaxCandidates may play on one stage.
const MaxCandidates = 4

// marksSize is how many requests may be on their way before older ones are
// forgotten.
const marksSize = 1 << 13

// Candidate is a policy that is tried.
type Candidate struct {
	Name   string // unique on the stage
	Policy *limiter.Policy
}

// Options of [New]. The zero value works.
type Options struct {
	// Objective is the latency up to which an answer is good; 0 = any.
	Objective time.Duration
	// InFlight returns the permits that the gate holds; it corrects the stage's
	// own count at the beginning and after losses. nil = none are held.
	InFlight func() int
	// Rand returns uniform 64-bit values; nil = math/rand/v2.
	Rand func() uint64
}

// Stage tries candidates beside one gate. As a [limiter.Witness] it is safe for
// concurrent use, never blocks and allocates nothing: what it is told waits in a
// ring until [Stage.Settle] plays it. The other methods are safe for concurrent
// use too.
type Stage struct {
	ring *ring

	mu         sync.Mutex // guards the fields below; held while the ring is played
	o          Options
	candidates []*candidate
	curve      curve
	inside     int // permits that the gate holds
	lost       uint64
	now        int64
	marks      [marksSize]mark
}

var _ limiter.Witness = (*Stage)(nil)

// mark remembers of a request that the gate let in which candidates would have
// refused it, and how many were in flight then, itself included; 0 = it waits.
// Its key is the moment at which it was decided or, after a wait, granted.
type mark struct {
	at     int64
	mask   uint8
	inside int
}

// New returns a stage without candidates.
func New(o Options) *Stage {
	s := &Stage{ring: newRing()}
	s.configure(o)
	return s
}

// configure takes o over. s.mu is held, or nobody else knows s.
func (s *Stage) configure(o Options) {
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	if o.InFlight == nil {
		o.InFlight = func() int { return 0 }
	}
	s.o, s.inside = o, o.InFlight()
}

// Apply puts candidates on the stage, at most [MaxCandidates]. One that keeps
// its name keeps what it counted, and what its limits learned as far as
// [limiter.Gate.Apply] keeps it.
func (s *Stage) Apply(o Options, list []Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	s.configure(o)
	before := map[string]*candidate{}
	for _, c := range s.candidates {
		before[c.name] = c
	}
	s.candidates = nil
	for i := range list[:min(len(list), MaxCandidates)] {
		c := before[list[i].Name]
		if c == nil {
			c = newCandidate(s, &list[i])
		} else {
			c.gate.Apply(list[i].Policy)
		}
		s.candidates = append(s.candidates, c)
	}
	s.marks = [marksSize]mark{} // bits belong to places in the list
}

// Decided implements [limiter.Witness].
func (s *Stage) Decided(now int64, req limiter.Request, v limiter.Verdict) {
	slot, at := s.ring.claim()
	if slot == nil {
		return
	}
	r := &slot.rec
	r.kind, r.verdict, r.now, r.req = decided, v, now, req
	slot.put(at)
}

// Waited implements [limiter.Witness].
func (s *Stage) Waited(offered, now int64, v limiter.Verdict) {
	if slot, at := s.ring.claim(); slot != nil {
		r := &slot.rec
		r.kind, r.before, r.now, r.verdict = waited, offered, now, v
		slot.put(at)
	}
}

// Ended implements [limiter.Witness].
func (s *Stage) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	if slot, at := s.ring.claim(); slot != nil {
		r := &slot.rec
		r.kind, r.before, r.now, r.latency, r.outcome = ended, start, now, latency, o
		slot.put(at)
	}
}

// Settle plays what waits in the ring. It is to be called every few
// milliseconds while requests come.
func (s *Stage) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

func (s *Stage) settleLocked() {
	var r record
	for range ringSize { // not for ever, however busy the gate is
		if !s.ring.take(&r) {
			break
		}
		s.now = max(s.now, r.now)
		switch r.kind {
		case decided:
			s.decided(&r)
		case waited:
			s.waited(&r)
		default:
			s.ended(&r)
		}
	}
	if lost := s.ring.lost.Load(); lost != s.lost {
		s.lost, s.inside = lost, s.o.InFlight()
	}
}

// decided has every candidate decide about a request.
func (s *Stage) decided(r *record) {
	if r.verdict == limiter.Admitted {
		s.inside++
	}
	var m mark
	ready := s.curve.ready(s.now)
	for i, c := range s.candidates {
		if ready && c.offer(s.now, r.req, r.verdict == limiter.Refused) {
			m.mask |= 1 << i
		}
	}
	if r.verdict == limiter.Refused {
		return
	}
	if m.at = r.now; r.verdict == limiter.Admitted {
		m.inside = s.inside
	}
	*s.markOf(r.now) = m
}

// markOf returns where the mark of a moment is.
func (s *Stage) markOf(at int64) *mark {
	return &s.marks[bits.RotateLeft64(uint64(at)*0x9e3779b97f4a7c15, 32)%marksSize]
}

// waited is the end of a wait: who was admitted goes by another moment from now
// on.
func (s *Stage) waited(r *record) {
	if r.verdict == limiter.Refused {
		for _, c := range s.candidates {
			if c.begun > 0 {
				c.counts.count(s.now, func(t *tally) { t.enforced++ })
			}
		}
		return
	}
	s.inside++
	moved := mark{at: r.now, inside: s.inside}
	if m := s.markOf(r.before); m.at == r.before {
		moved.mask = m.mask
		*m = mark{}
	}
	*s.markOf(r.now) = moved
}

// ended learns how long the backend took, and which refusals would have been for
// nothing: the request was answered in time.
func (s *Stage) ended(r *record) {
	s.inside = max(s.inside-1, 0)
	m := s.markOf(r.before)
	if m.at != r.before || m.inside == 0 {
		return // it began before the stage, or was forgotten
	}
	s.curve.learn(r.now, m.inside, r.latency, r.outcome)
	good := r.outcome == limiter.Success && (s.o.Objective <= 0 || r.latency <= s.o.Objective)
	for i, c := range s.candidates {
		if good && m.mask&(1<<i) != 0 {
			c.counts.count(s.now, func(t *tally) { t.forNothing++ })
		}
	}
	*m = mark{}
}
