package knee

import (
	"math"
	"time"
)

// What a window is for.
const (
	gather = iota // ordinary work
	flush         // the limit is lowered, and what was in flight before comes back
	probe         // throughput is measured under the lowered limit
)

// window is one closed window. Times are nanoseconds, rates per nanosecond.
type window struct {
	now                       int64
	elapsed                   float64
	calm, busy, dropped, peak int
	latency, held             float64 // sums over calm and busy samples
	calmLatency, calmHeld     float64 // sums over calm samples
	offered, refused          float64
	watched                   bool
	left                      left
}

func (w *window) count() float64 { return float64(w.calm + w.busy) }

func (w *window) rate() float64 { return w.count() / math.Max(w.elapsed, 1) }

func (w *window) mean() float64 { return w.latency / math.Max(w.count(), 1) }

// share is the part of the demand that was refused.
func (w *window) share(limit float64) float64 {
	switch {
	case w.watched:
		return math.Min(w.refused/math.Max(w.offered, 1), 1)
	case float64(w.peak) < math.Floor(limit):
		return 0
	case w.held < 0.9*limit*w.count():
		return 0.01
	default:
		return 0.5
	}
}

type state struct {
	limit    float64
	base     float64 // mean latency without a queue, ns; 0 = unknown
	rate     float64 // throughput, per ns
	refused  float64 // share, smoothed
	patience float64 // ns, 0 = nobody has left
	ceiling  float64 // that drops hold down; 0 = none

	phase                 int
	level                 float64 // the limit of a drain
	top                   float64 // throughput before it
	slow                  float64 // latency before it
	n, t, l               float64 // completions, time and latencies of a probe so far
	offered               float64 // in it
	rejected              float64 // in it
	began                 int64   // when the drain began
	age                   float64 // ns that were looked at
	known                 float64 // samples of windows that refused nothing, since the beginning
	seen                  float64 // of these, those that no drain stands in for
	deep                  bool    // the drain began without a throughput to compare with
	verified              float64 // throughput at which a drain last told; 0 = never in this episode
	growUntil             int64
	fresh                 bool
	over                  bool     // the last window was one of overload
	contrast              contrast // of windows that refused next to nothing
	waiting               float64  // behind those at work, smoothed
	doubt                 float64  // the baseline before a verdict that is on trial; 0 = none
	wasWork               float64  // and what was at work
	least                 float64  // the lowest baseline of the last minutes
	met                   int64    // when gates last drained together
	bestRate, bestHeld    float64  // the best throughput of this episode, and what was in flight for it
	still                 float64  // samples behind that
	markHeld, markLatency float64  // the most in flight of this episode, and its latency
	work                  float64  // the most that was at work without a queue, forgotten in a minute
	before                float64  // throughput before this episode
	span                  int64
	quota                 int64
	calm                  int64
	memory                float64 // the highest throughput of the last minute
	remeasured            int
}

const (
	usualSpan  = int64(250 * time.Millisecond)
	leastQueue = 40
	meeting    = int64(4 * time.Second) // between the moments at which gates may drain
	trialRatio = 1.25                   // of latency, by which a verdict that raised the limit was wrong
	longWindow = int64(time.Second)
)

func newState(o Options) state {
	return state{limit: float64(o.InitialLimit), span: usualSpan / 4, quota: 16, calm: int64(max(1, o.InitialLimit/4))}
}

// recall takes a baseline that was learned before. What the first answers are
// like, of which the quick ones are back first, does not replace it.
func (s *state) recall(base time.Duration) {
	s.base, s.known, s.age = float64(base), math.Max(s.known, 100), math.Inf(1)
}

// patienceOfWindow is how long a window waits for its samples.
func (s *state) patienceOfWindow() int64 {
	switch s.phase {
	case flush:
		return int64(4*s.slow) + int64(50*time.Millisecond)
	case probe:
		return int64(8*s.slow) + int64(200*time.Millisecond)
	}
	return longWindow
}

func (s *state) enforced(o Options) int {
	limit := s.limit
	if s.phase != gather {
		limit = s.level
	}
	if s.ceiling > 0 {
		limit = math.Min(limit, s.ceiling)
	}
	return min(max(int(limit+0.5), o.MinLimit), o.MaxLimit)
}

// queue is how many may wait behind those at work.
func (s *state) queue(o Options) float64 {
	q := s.room(o)
	if t := s.trim(o); t > 0 {
		q = math.Min(q, math.Max(1, s.rate*(t/2-s.base)))
	}
	return q
}

// room is the queue that the refused share asks for.
func (s *state) room(o Options) float64 {
	n := float64(o.Gates)
	busy := n * s.rate * s.base
	q := math.Max(leastQueue, 3*math.Sqrt(busy))
	if s.refused > 0 {
		q = math.Min(q, 3/-math.Log1p(-math.Min(s.refused, 0.8))+0.07*busy)
	}
	return q / n
}

// trim is the time that callers are known to wait, 0 = unknown.
func (s *state) trim(o Options) float64 {
	t := float64(o.Objective)
	if t == 0 || s.patience > 0 && s.patience < t {
		t = s.patience
	}
	return t
}

// decide is what a window teaches: pure arithmetic.
func decide(o Options, s state, w window) (state, string) {
	s.learnPatience(&w)
	var why string
	switch s.phase {
	case flush:
		why = s.flushed(&w)
	case probe:
		why = s.probed(o, &w)
	default:
		why = s.gathered(o, &w)
	}
	s.limit = math.Min(math.Max(s.limit, float64(o.MinLimit)), float64(o.MaxLimit))
	return s, why
}
