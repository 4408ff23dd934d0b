package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// How partitions that share a backend are kept at equal shares.
const (
	// contention lasts for so long after a request had to wait for a permit that the
	// partitions share, or was refused it.
	contention = int64(5 * time.Second)
	// shortFor is for how many coarse seconds a partition belongs to those that are
	// short after it was refused.
	shortFor = 10
	// turnEvery is how often the service of all that are short is compared, or every
	// turnEach for each of them where there are so many.
	turnEvery = int64(100 * time.Millisecond)
	turnEach  = int64(10 * time.Microsecond)
	// memory is how far back a partition that was refused may be, in time at the pace
	// of all, and still make up for it; lead is how far ahead one may be, and how far
	// back one that asked for less than its share.
	memory = float64(5 * time.Second)
	lead   = float64(500 * time.Millisecond)
	// ahead bounds what is held against a partition that has had more than others.
	ahead = float64(10 * time.Second)
	// paceWeight is the weight of the newest turn in the pace.
	paceWeight = 0.2
	// forget is how much of what was refused still counts a turn later.
	forget = 0.98
	// similar is the ratio below which two mean times that a permit is held are taken
	// for the same: a mean over some hundred requests unanswered connections by chance.
	similar = 1.15
	// holdSamples is how many permits the mean time that a partition holds one is
	// taken over.
	holdSamples = 128
)

// fairness accounts for the service of the partitions that share a backend while
// there is not enough of it for all, so that who was given less goes first: start-time
// fair queueing (Goyal, Vin and Cheng, 1996) with a bounded memory. Each partition has
// a tag, which grows by the cost of each of its permits divided by its weight. The
// level is the mean tag of the requests that are refused, whose partitions get what is
// fair: one
// that asks for less than that is never far behind it, one that was refused may be, and
// one that got more is ahead. While there is enough for all, nothing is accounted.
//
// The cost of a permit is 1, or for partitions that hold theirs much longer or
// shorter than all do on average the ratio of the two.
type fairness struct {
	until   atomic.Int64  // monotonic ns; there is contention before that
	episode atomic.Uint32 // of contention; tags are those of one episode
	behind  atomic.Int64  // monotonic ns until which it counts that one who had less than others was refused
	starved atomic.Int64  // the same of one who had much less
	level   float
	weight  float        // of those that are short, see importance
	pace    float        // of the level, per ns
	hold    float        // mean ns that a permit is held
	held    atomic.Int64 // permits that it is taken over
	due     atomic.Int64

	mu      sync.Mutex // guards the fields below; only ever tried, never waited for
	short   []*partition
	turned  int64   // monotonic ns of the last turn
	reached float64 // level then
}

// share is what fairness knows of a partition.
type share struct {
	tag     float
	size    float // mean time that a permit of the partition is held, in that of all; 0 = unknown, which is 1
	lack    float // requests that it was refused of late, see forget
	episode atomic.Uint32
	lacked  lastUse                  // the last time that it was refused
	short   atomic.Pointer[fairness] // it is among those that are short there; nil = nowhere
}

// contended reports whether there was not enough for all of late.
func (f *fairness) contended(now int64) bool { return now < f.until.Load() }

// waits notes that somebody waits for a permit of what is shared.
func (f *fairness) waits(now int64) {
	until := f.until.Load()
	if until < now+contention-contention/10 && f.until.CompareAndSwap(until, now+contention) && until <= now {
		f.episode.Add(1)
	}
}

// refused notes that a request of a partition was refused a permit of what is shared.
func (f *fairness) refused(now int64, s *partitionSpec) {
	f.waits(now)
	if f.underserved(now, s) {
		until := now + min(max(int64(4*f.hold.load()), int64(minStand)), int64(time.Second))
		extend(&f.behind, until)
		if f.tagOf(now, s) < f.level.load()-f.pace.load()*lead-2/s.weight() {
			extend(&f.starved, until)
		}
	}
	f.lacks(now, s.part)
	f.turn(now)
}

// extend moves a time on, seldom enough to cost nothing.
func extend(t *atomic.Int64, until int64) {
	if t.Load() < until-int64(minStand)/8 {
		t.Store(until)
	}
}

// lacks notes that a partition wants more than it is given: it was refused, or has
// others wait behind the one that is served.
func (f *fairness) lacks(now int64, p *partition) {
	h := &p.share
	h.lacked.note(now)
	h.lack.add(1)
	if h.short.Load() != f && f.mu.TryLock() { // else at the next occasion
		if h.short.Swap(f) != f {
			f.short = append(f.short, p)
		}
		f.mu.Unlock()
	}
}

// weight returns the partition's part of what is shared.
func (s *partitionSpec) weight() float64 { return float64(max(s.policy.Weight, 1)) }

// tagOf returns the tag of a partition, within what is remembered of it.
func (f *fairness) tagOf(now int64, s *partitionSpec) float64 {
	h, level := &s.part.share, f.level.load()
	if episode := f.episode.Load(); h.episode.Load() != episode {
		h.episode.Store(episode)
		h.tag.store(level)
		return level
	}
	pace, one := f.pace.load(), 1/s.weight()
	least, most := level-pace*lead-one, level+pace*ahead+2*one
	if h.short.Load() == f && h.lacked.since(now) <= shortFor {
		least = level - pace*memory - 2*one
	}
	tag := h.tag.load()
	if kept := min(max(tag, least), most); kept != tag {
		h.tag.store(kept)
		return kept
	}
	return tag
}

// rounded returns the tag of a partition less what may be chance: of partitions whose
// tags are as good as equal who waited longest goes first.
func (f *fairness) rounded(now int64, s *partitionSpec) float64 {
	tag := f.tagOf(now, s)
	if step := f.pace.load() * lead; step > 1/s.weight() {
		return math.Floor(tag/step) * step
	}
	return tag
}

// cost returns by how much a permit moves the tag of its partition.
func (f *fairness) cost(s *partitionSpec) float64 {
	cost := 1.0
	if size := s.part.share.size.load(); size > similar || size > 0 && size*similar < 1 {
		cost = size
	}
	return cost / s.weight()
}

// charge accounts for a permit that is granted under contention.
func (f *fairness) charge(now int64, s *partitionSpec) {
	h, cost := &s.part.share, f.cost(s)
	f.tagOf(now, s)
	h.tag.add(cost)
	if lack := h.lack.load(); lack > 0 {
		f.level.add(cost * lack / max(f.weight.load(), lack))
	}
	f.turn(now)
}

// underserved reports whether a partition has had less than those that are refused.
func (f *fairness) underserved(now int64, s *partitionSpec) bool {
	return f.tagOf(now, s) < f.level.load()-0.5/s.weight()
}

// leaves returns which part of what is shared a partition leaves to those that have
// had less than it and were refused lately: one in so many permits, 0 = none.
func (f *fairness) leaves(now int64, s *partitionSpec) int64 {
	switch {
	case now >= f.behind.Load() || f.underserved(now, s):
		return 0
	case now < f.starved.Load():
		return 6
	}
	return 20
}

// turn compares all that are short, when that is due.
func (f *fairness) turn(now int64) {
	due := f.due.Load()
	if now < due || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if !f.due.CompareAndSwap(due, now+max(turnEvery, int64(len(f.short))*turnEach)) {
		return
	}
	sum, weight, kept := 0.0, 0.0, f.short[:0]
	for _, p := range f.short {
		s := p.spec.Load()
		if p.share.short.Load() != f { // its gate has another backend since
			continue
		}
		if p.share.lacked.since(now) > shortFor {
			p.share.short.Store(nil)
			p.share.lack.store(0)
			continue
		}
		kept = append(kept, p)
		w := p.share.lack.load()
		p.share.lack.store(w * forget)
		sum += w * f.tagOf(now, s)
		weight += w
	}
	clear(f.short[len(kept):])
	f.short = kept
	f.weight.store(weight)
	level := f.level.load()
	if weight > 0 {
		level = sum / weight
		f.level.store(level)
	}
	if span := now - f.turned; f.turned > 0 && weight > 0 {
		pace := max(level-f.reached, 0) / float64(max(span, 1))
		f.pace.add(paceWeight * (pace - f.pace.load()))
	}
	f.turned, f.reached = now, level
}

// ended notes for how long a permit was held. An update that another one overtakes is
// lost.
func (f *fairness) ended(s *partitionSpec, latency time.Duration) {
	if latency <= 0 {
		return
	}
	hold, size := float64(min(latency, maxLatency)), &s.part.share.size
	n := f.held.Load()
	if n < 8*holdSamples {
		f.held.Store(n + 1)
	}
	if n >= holdSamples { // the mean of all means something
		if size.load() == 0 {
			size.store(1)
		}
		size.follow(hold/f.hold.load(), 1.0/holdSamples)
	}
	f.hold.follow(hold, 1/float64(n+1))
}

// float is a float64 that many may change.
type float struct{ bits atomic.Uint64 }

func (f *float) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *float) store(x float64) { f.bits.Store(math.Float64bits(x)) }

// add adds x.
func (f *float) add(x float64) {
	for {
		old := f.bits.Load()
		if f.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+x)) {
			return
		}
	}
}

// follow moves a mean by the weight of a new value; the first value is the mean. A
// change that another one overtakes is lost.
func (f *float) follow(x, weight float64) {
	old := f.bits.Load()
	if mean := math.Float64frombits(old); mean > 0 {
		x = mean + weight*(x-mean)
	}
	f.bits.CompareAndSwap(old, math.Float64bits(x))
}
