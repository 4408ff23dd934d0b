package algorithms

import (
	"math"
	"time"
)

// What a window of [Knee] is for.
const (
	gather = iota // ordinary work
	flush         // the limit is lowered, and what was in flight before comes back
	probe         // throughput is measured under the lowered limit
)

// kneeWindow is one closed window. Times are nanoseconds, rates per nanosecond.
type kneeWindow struct {
	now                       int64
	elapsed                   float64
	calm, busy, dropped, peak int
	latency, held             float64 // sums over calm and busy samples
	calmLatency, calmHeld     float64 // sums over calm samples
	offered, refused          float64
	watched                   bool
	left                      left
}

func (w *kneeWindow) count() float64 { return float64(w.calm + w.busy) }
func (w *kneeWindow) rate() float64  { return w.count() / math.Max(w.elapsed, 1) }
func (w *kneeWindow) mean() float64  { return w.latency / math.Max(w.count(), 1) }

// share is the part of the demand that was refused.
func (w *kneeWindow) share(limit float64) float64 {
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

// contrast is what calm and busy samples of the last windows were like.
type contrast struct {
	calm, calmHeld, calmLatency float64
	busy, busyHeld, busyLatency float64
}

// add weighs in a window, and forgets the older ones over about 2000 samples.
func (c *contrast) add(w *kneeWindow) {
	keep := math.Exp(-w.count() / 2000)
	c.calm = keep*c.calm + float64(w.calm)
	c.calmHeld = keep*c.calmHeld + w.calmHeld
	c.calmLatency = keep*c.calmLatency + w.calmLatency
	c.busy = keep*c.busy + float64(w.busy)
	c.busyHeld = keep*c.busyHeld + w.held - w.calmHeld
	c.busyLatency = keep*c.busyLatency + w.latency - w.calmLatency
}

// elasticity is how latency follows what is in flight: 1 where it is in
// proportion, as behind a queue, 0 where it does not care. Its error is about
// that of the means over the contrast; ok is false where that is too much.
func (c *contrast) elasticity() (e float64, ok bool) {
	if c.calm < 12 || c.busy < 12 {
		return 0, false
	}
	few, many := c.calmHeld/c.calm, c.busyHeld/c.busy
	spread := 2 * (many - few) / (many + few)
	if noise := math.Sqrt(1/c.calm + 1/c.busy); spread < 2.5*noise {
		return 0, false
	}
	fast, slow := c.calmLatency/c.calm, c.busyLatency/c.busy
	return 2 * (slow - fast) / (slow + fast) / spread, true
}

type kneeState struct {
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
	age                   float64 // ns of such windows
	known                 float64 // samples of windows that refused nothing, since the beginning
	deep                  bool    // the drain began without a throughput to compare with
	verified              float64 // throughput at which a drain last told; 0 = never in this episode
	next, gap             int64
	growUntil             int64
	fresh                 bool
	contrast              contrast // of windows that refused next to nothing
	waiting               float64  // behind those at work, smoothed
	doubt                 float64  // the baseline before a verdict that is on trial; 0 = none
	still                 float64  // samples behind that
	markHeld, markLatency float64  // the most in flight of this episode, and its latency
	calmWindow            bool     // the last window refused next to nothing
	work                  float64  // the most that was at work without a queue, forgotten in a minute
	before                float64  // throughput before this episode
	span                  int64
	quota                 int64
	calm                  int64
	memory                float64 // the highest throughput of the last minute
	remeasured            int
}

const (
	kneeSpan   = int64(250 * time.Millisecond)
	kneeQueue  = 40
	trialRatio = 1.25 // of latency, by which a verdict that raised the limit was wrong
	longWindow = int64(time.Second)
)

func newKneeState(o KneeOptions) kneeState {
	return kneeState{limit: float64(o.InitialLimit), span: kneeSpan / 4, quota: 16, calm: int64(max(1, o.InitialLimit/4))}
}

// patienceOfWindow is how long a window waits for its samples.
func (s *kneeState) patienceOfWindow() int64 {
	switch s.phase {
	case flush:
		return int64(4*s.slow) + int64(50*time.Millisecond)
	case probe:
		return int64(8*s.slow) + int64(200*time.Millisecond)
	}
	return longWindow
}

func (s *kneeState) enforced(o KneeOptions) int {
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
func (s *kneeState) queue(o KneeOptions) float64 {
	q := s.room(o)
	if t := s.trim(o); t > 0 {
		q = math.Min(q, math.Max(1, s.rate*(t/2-s.base)))
	}
	return q
}

// room is the queue that the refused share asks for.
func (s *kneeState) room(o KneeOptions) float64 {
	n := float64(o.Gates)
	busy := n * s.rate * s.base
	q := math.Max(kneeQueue, 3*math.Sqrt(busy))
	if s.refused > 0 {
		q = math.Min(q, 3/-math.Log1p(-math.Min(s.refused, 0.8))+0.07*busy)
	}
	return q / n
}

// trim is the time that callers are known to wait, 0 = unknown.
func (s *kneeState) trim(o KneeOptions) float64 {
	t := float64(o.Objective)
	if t == 0 || s.patience > 0 && s.patience < t {
		t = s.patience
	}
	return t
}

// decideKnee is what a window teaches: pure arithmetic.
func decideKnee(o KneeOptions, s kneeState, w kneeWindow) (kneeState, string) {
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

func (s *kneeState) gathered(o KneeOptions, w *kneeWindow) string {
	if cut := s.drops(o, w); cut || w.count() == 0 {
		return "drops"
	}
	share := w.share(s.limit)
	excess := share
	if w.watched && share > 0.01 {
		// What cannot be served, whatever is being refused to work off a queue.
		excess = math.Max(0.01, 1-w.count()/math.Max(w.offered, 1))
	}
	s.refused += (1 - math.Exp(-w.elapsed/5e8)) * (excess - s.refused)
	if s.base == 0 {
		s.base = w.mean()
	}
	s.memory = math.Max(s.memory*math.Exp(-w.elapsed/60e9), w.rate())
	var why string
	burst := s.calmWindow && share < 0.3 && w.held < 0.7*s.limit*w.count()
	s.calmWindow = share <= 0.01
	if s.calmWindow || burst {
		s.span = max(kneeSpan*2/5, int64(1.5*w.mean()))
		why = s.free(o, w, share)
	} else {
		s.span = max(kneeSpan, int64(2*s.base))
		why = s.bound(o, w, excess)
	}
	if s.phase == gather {
		s.quota = 16
		s.recalm(w)
	}
	return why
}

// recalm moves the bound of calm samples to where a quarter of them is below it.
func (s *kneeState) recalm(w *kneeWindow) {
	if w.count() < 8 {
		return
	}
	step := max(1, s.calm/6)
	switch part := float64(w.calm) / w.count(); {
	case part < 0.15:
		s.calm = min(s.calm+step, int64(w.held/w.count())+1)
	case part > 0.4:
		s.calm = max(1, s.calm-step)
	}
}

func (s *kneeState) free(o KneeOptions, w *kneeWindow, share float64) string {
	if share > 0.01 {
		s.refused *= 0.6 // a burst is no overload
	} else {
		s.learn(w)
	}
	want := s.rate*s.base + s.queue(o)
	switch {
	case want > s.limit && float64(2*w.peak) >= s.limit:
		s.limit = math.Min(want, 1.5*s.limit)
		return "room"
	case s.limit > math.Max(float64(o.InitialLimit), 1.2*want):
		s.limit *= math.Exp(-0.05 * w.elapsed / float64(kneeSpan))
		return "unused"
	}
	return ""
}

// learn takes a window that refused next to nothing, and ends an episode of
// overload.
func (s *kneeState) learn(w *kneeWindow) {
	s.learnBase(w)
	s.rate += 0.5 * (w.rate() - s.rate)
	s.before, s.verified, s.next, s.gap, s.fresh = s.rate, 0, 0, 0, true
	if s.sure() {
		s.work *= math.Exp(-w.elapsed / 60e9)
		if more := s.rate*s.base - s.work; more > 0 {
			s.work += w.count() / (w.count() + 200) * more
		}
	}
}

// learnBase takes the latency of a window that refused next to nothing. Where it
// does not follow what is in flight there is no queue, and it is the baseline.
// Otherwise calm samples are fair where no more was in flight before them than
// is at work on average; the others lower the baseline and hardly raise it.
func (s *kneeState) learnBase(w *kneeWindow) {
	s.known += w.count()
	s.age += w.elapsed
	s.contrast.add(w)
	n, r, held := w.count(), w.mean(), w.held
	e, ok := s.contrast.elasticity()
	fair := ok && e < 0.4
	if !fair && w.calm >= 4 {
		n, r, held = float64(w.calm), w.calmLatency/float64(w.calm), w.calmHeld
	}
	fair = fair || held/n-1 <= s.rate*s.base
	weight := n / (n + 64)
	if !s.sure() || s.age < 5*w.mean() {
		weight, fair, r = 1, true, w.mean() // at first the quick ones are back
	}
	if !fair && r > s.base {
		if r > 2*s.base {
			return
		}
		weight /= 8
	}
	s.base += weight * (r - s.base)
}

func (s *kneeState) bound(o KneeOptions, w *kneeWindow, share float64) string {
	r, x := w.mean(), w.rate()
	if s.doubt > 0 && r > trialRatio*s.base {
		// With more in flight latency went up after all: it was a queue, perhaps
		// that of others.
		s.base, s.doubt, s.growUntil = s.doubt, 0, 0
		s.rate, s.verified, s.next = x, x, w.now+int64(10*time.Second)
		s.limit = s.rate*s.base + s.queue(o)
		return "queue"
	}
	if w.now >= s.growUntil {
		s.doubt = 0
	}
	s.smooth(x, w.elapsed, w.count())
	if r < s.base {
		s.base += 0.3 * (r - s.base)
	}
	q := s.queue(o)
	first := s.fresh
	if first {
		s.waiting, s.still, s.markHeld = q, 0, 0
		if s.sure() {
			s.refused = share
			q = s.queue(o)
		}
	}
	s.fresh = false
	s.waiting += w.count() / (s.still + w.count() + 32) * (x*(r-s.base) - s.waiting)
	s.still = math.Min(s.still+w.count(), 1000)
	if s.flat(w) || s.cutIntoWork(w) {
		s.base = math.Max(s.base, r)
		s.growUntil = w.now + int64(time.Second) + int64(4*s.base)
		return s.grow(w, q)
	}
	noise := s.limit / math.Sqrt(s.still+64)
	if w.now < s.growUntil {
		noise = 0
	}
	if s.waiting+noise < 0.5*s.room(o) {
		return s.grow(w, q)
	}
	if s.verified == 0 && s.sure() && x > 0.95*s.before {
		// More is served than before, so the demand has risen to the capacity.
		s.verified, s.next = s.rate, w.now+int64(2*time.Second)
	}
	due := s.verified == 0 || s.rate < 0.75*s.verified || s.rate > 1.35*s.verified || w.now >= s.next
	if due && w.now >= s.growUntil && share > 0.05 {
		s.drain(o, w, math.Min(r, s.limit/x), x)
		s.deep = first
		return "drain"
	}
	want := math.Max(s.rate*s.base, math.Min(s.work, s.limit)) + q
	low := s.limit * 0.25
	if s.verified == 0 {
		low = s.limit * 0.9
	}
	before := s.limit
	if s.waiting < 0.3*s.room(o) {
		low = s.limit
	}
	s.limit = math.Max(low, math.Min(want, 2*s.limit))
	if s.limit < before {
		return "queue"
	}
	return "busy"
}

// flat reports that the window itself shows latency not to follow what is in
// flight.
func (s *kneeState) flat(w *kneeWindow) bool {
	var c contrast
	c.add(w)
	e, ok := c.elasticity()
	return ok && e < 0.3
}

// cutIntoWork compares with the most that was in flight in this episode. When
// the limit has come down and latency has not, the limit governs throughput: the
// baseline was too low.
func (s *kneeState) cutIntoWork(w *kneeWindow) bool {
	held, r := w.held/w.count(), w.mean()
	if w.count() < 48 {
		return false // too few for a latency worth comparing
	}
	switch {
	case held > 1.05*s.markHeld:
		s.markHeld, s.markLatency = held, r
	case held > 0.95*s.markHeld:
		s.markLatency += 0.3 * (r - s.markLatency)
	case held < 0.7*s.markHeld:
		e := math.Log(r/s.markLatency) / math.Log(held/s.markHeld)
		s.markHeld, s.markLatency = held, r
		return e < 0.35
	}
	return false
}

// smooth follows throughput over the last samples, and forgets them when it has
// moved by more than their noise.
func (s *kneeState) smooth(x, elapsed, n float64) {
	weight := n / (n + 256)
	if d := x - s.rate; d*d*elapsed > 16*math.Max(s.rate, x) {
		weight = 1
	}
	s.rate += weight * (x - s.rate)
}

// grow follows the demand where there is no queue.
func (s *kneeState) grow(w *kneeWindow, q float64) string {
	factor := 1.1
	if s.waiting < 0.2*q {
		factor = 1.4
	}
	if w.now < s.growUntil || !s.sure() {
		factor = 2
	}
	demand := w.rate() / math.Max(1-w.share(s.limit), 0.01)
	if next := math.Min(factor*s.limit, demand*s.base+q); next > s.limit {
		s.limit, s.still = next, 0
	}
	return "demand"
}

// sure reports whether the baseline comes from more than the first moments.
func (s *kneeState) sure() bool { return s.known >= 100 }

// drain lowers the limit to see what gives way.
func (s *kneeState) drain(o KneeOptions, w *kneeWindow, latency, rate float64) {
	level := s.limit / 4
	if s.verified > 0 {
		level = math.Max(level, 0.75*s.rate*s.base)
	} else if s.sure() {
		level = math.Max(level, math.Min(s.limit/2, s.work))
	}
	s.phase, s.level = flush, math.Max(level, float64(o.MinLimit))
	s.top, s.slow, s.began = rate, latency, w.now
	s.span, s.quota, s.calm = 1, int64(s.limit+0.5), -1
}

func (s *kneeState) flushed(w *kneeWindow) string {
	if s.deep && w.count() > 0 {
		s.top, s.slow = w.rate(), w.mean()
	}
	s.deep = false
	s.phase, s.n, s.t, s.l, s.offered, s.rejected = probe, 0, 0, 0, 0, 0
	s.span, s.quota = 1, 4
	return "drain"
}

// probed counts what comes back under the lowered limit. Where the latency is
// the backend's own, a permit comes back once in that time, so k latencies
// bring k times what is out, and one more where it comes in bunches; from a queue
// they come back as fast as ever. The verdict falls in the geometric middle of
// the two, at once when that many are back, or when the time is over.
func (s *kneeState) probed(o KneeOptions, w *kneeWindow) string {
	s.n, s.t, s.l = s.n+w.count(), s.t+w.elapsed, s.l+w.latency
	s.offered, s.rejected = s.offered+w.offered, s.rejected+w.refused
	held := float64(s.enforced(o))
	cycles := math.Min(6, math.Max(2, math.Ceil(8/held)))
	f := math.Min(held/math.Max(s.top*s.slow, 1), 0.9)
	k := math.Max(cycles, s.t/s.slow)
	enough := held * math.Sqrt((k+1)*k/f)
	if f > 0.55 { // too close for that: take the middle of the means
		enough = held * k / math.Sqrt(f)
	}
	if s.n < enough && s.t < cycles*s.slow {
		s.span = min(int64(cycles*s.slow-s.t)+1, int64(20*time.Millisecond))
		s.quota = 1
		return "drain"
	}
	if s.n == 0 || w.watched && s.rejected < 0.01*s.offered { // the demand has gone
		s.finish(o, w)
		return "drain"
	}
	if s.n < enough && s.n < 200 && s.t < 3*s.slow {
		s.span, s.quota = 1, 4 // the verdict is clear; the baseline is not yet
		return "drain"
	}
	x, r := s.n/s.t, s.l/s.n
	if s.t < 2*r && held >= 4 {
		// Too short for the mean of those that came back: the quick ones do so first.
		r = held / x
	}
	if s.n < enough {
		return s.slower(o, w, r)
	}
	s.top = (x + s.top) / 2
	wrong := !s.sure() || r < 0.6*s.base
	s.base = math.Min(math.Max(s.base, s.work/s.top), r)
	if next := s.level / 4; wrong && s.enforced(o) > 1 {
		s.slow = r
		s.limit, s.level = s.level, next
		s.phase, s.span, s.quota = flush, 1, int64(s.limit+0.5)
		return "queue"
	}
	if w.watched {
		s.refused = math.Max(s.refused, 1-s.top*s.t/s.offered)
	}
	s.finish(o, w)
	s.rate = s.top
	s.limit = s.rate*s.base + s.queue(o)
	return "queue"
}

// slower is told that throughput gave way under a lower limit, which therefore
// cuts into work, and that latency then was r.
func (s *kneeState) slower(o KneeOptions, w *kneeWindow, r float64) string {
	known, before := s.sure(), s.base
	calm := r > 0.7*s.slow && (r > 1.3*before || !known)
	if math.Abs(r-s.base) < 0.3*s.base || known && !calm {
		s.base += s.n / (s.n + 32) * (r - s.base)
	} else {
		s.base = r
	}
	s.finish(o, w)
	s.rate = s.top
	q := s.queue(o)
	s.work = s.rate * s.base
	want := s.work + q
	if calm {
		demand := s.memory
		if w.watched {
			demand = math.Min(s.offered/s.t, s.memory)
		}
		want = math.Max(want, math.Min(demand*s.base+q, 2.5*s.limit))
		s.growUntil = w.now + int64(time.Second) + int64(4*s.base)
		s.waiting = 0
		s.remeasured++
		if known && s.base > trialRatio*before {
			s.doubt = before
		}
	}
	s.limit = want
	return "slower"
}

// finish ends a drain.
func (s *kneeState) finish(o KneeOptions, w *kneeWindow) {
	s.phase = gather
	s.contrast = contrast{}
	s.verified = s.top
	s.waiting, s.still, s.markHeld = s.queue(o), 0, 0
	s.known = math.Max(s.known, 100)
	s.gap = min(max(2*s.gap, int64(5*time.Second)), int64(40*time.Second))
	s.next = w.now + s.gap
	s.span, s.quota = kneeSpan, 16
	s.calm = max(1, int64(s.level/2))
}

// drops holds the limit down while the backend refuses.
func (s *kneeState) drops(o KneeOptions, w *kneeWindow) bool {
	total := w.count() + float64(w.dropped)
	if float64(w.dropped) <= 0.05*total || total < 1 {
		if s.ceiling > 0 {
			s.ceiling = math.Max(1.1*s.ceiling, s.ceiling+1)
			if s.ceiling >= s.limit {
				s.ceiling = 0
			}
		}
		return false
	}
	top := float64(s.enforced(o))
	s.ceiling = math.Max(float64(o.MinLimit), math.Min(0.9*top, top-1))
	return true
}

// learnPatience follows the age that a tenth of those who leave have not
// reached, and forgets it in minutes.
func (s *kneeState) learnPatience(w *kneeWindow) {
	n := float64(w.left.younger + w.left.older)
	switch {
	case n == 0 || n < 0.01*w.count():
		s.patience *= math.Exp(w.elapsed / 60e9)
	case s.patience == 0:
		s.patience = w.left.youngest
	default:
		s.patience *= math.Exp(math.Min(0.2, math.Max(-0.2, 0.05*(0.1*n-float64(w.left.younger)))))
		s.patience = math.Max(s.patience, math.Min(w.left.youngest, s.patience))
	}
	if s.patience > float64(maxLatency) {
		s.patience = 0
	}
}
