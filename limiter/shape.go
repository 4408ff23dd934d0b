package limiter

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is learned of shapes.
const (
	defaultShapes = 1000
	maxShapes     = 100_000
	maxShapeName  = 512 // bytes
	// knownAfter is how many of a shape have ended before its cost is believed.
	knownAfter = 8
	// shapeFade is how much the past counts, for each second that passes: for a
	// shape as for all, so that a backend which slows down makes nobody dear.
	shapeFade = 0.8
	// The cost of a shape stays within these multiples of the usual one.
	leastCost, mostCost = 0.05, 1000
)

// Shape is what requests have in common that ask for the same with other values:
// a route, a command with its fields, a statement without its literals. The gate
// learns what each takes at the backend. It is safe for concurrent use.
type Shape struct {
	name    string
	ended   atomic.Uint64
	refused atomic.Uint64
	busy    atomic.Int64  // ns, added up
	bytes   atomic.Uint64 // added up
	mean    recent        // ns
	best    atomic.Uint64 // float64 bits: ns that a request takes when nobody is in its way
	touched lastUse       // the last end
}

// recent is a mean over the last seconds, each of which counts less than the next.
type recent struct {
	value atomic.Uint64 // float64 bits; 0 = unknown

	mu     sync.Mutex // guards the fields below; never held across a wait
	second uint32
	sum, n float64
}

// add takes a value into account, in a coarse second.
func (r *recent) add(second uint32, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if past := int32(second - r.second); past > 0 {
		fade := math.Pow(shapeFade, float64(past))
		r.sum, r.n, r.second = r.sum*fade, r.n*fade, second
	}
	r.sum, r.n = r.sum+value, r.n+1
	r.value.Store(math.Float64bits(r.sum / r.n))
}

// mean returns it.
func (r *recent) mean() float64 { return math.Float64frombits(r.value.Load()) }

// shapes are the shapes that a gate has seen, by a hash of what they are.
type shapes struct {
	all   atomic.Pointer[map[uint64]*Shape]
	other Shape  // of all beyond the bound
	mean  recent // ns that a request takes, over all
	bytes atomic.Uint64
	ended atomic.Uint64
	most  atomic.Int64 // 0 = nothing is learned
	// evictAt is the coarse second before which nobody makes room. It is read without
	// mu, or a flood of new shapes would wait for each other.
	evictAt atomic.Int64

	mu sync.Mutex // guards changes of all and evictAt
}

// Shape returns the shape with the given hash, which name describes; it is asked
// for only when the shape is new. nil when the policy learns nothing. Shapes that
// are asked for least make room for new ones, at most an eighth of them a
// second; until then what is new is one shape, "other".
func (g *Gate) Shape(hash uint64, name func() string) *Shape {
	sh := &g.shapes
	most := sh.most.Load()
	if most == 0 {
		return nil
	}
	if all := sh.all.Load(); all != nil {
		if s := (*all)[hash]; s != nil {
			return s
		}
		if int64(len(*all)) >= most && !sh.mayEvict(g.clock.Now()) {
			return &sh.other
		}
	}
	return sh.add(hash, name, g.clock.Now())
}

// Learns reports whether the gate learns what shapes cost, so that callers need
// not find them otherwise.
func (g *Gate) Learns() bool { return g.shapes.most.Load() > 0 }

// mayEvict reports whether it is time to make room again.
func (sh *shapes) mayEvict(now int64) bool { return now>>coarseShift >= sh.evictAt.Load() }

// add enters a shape. It copies the table, since shapes are new seldom.
func (sh *shapes) add(hash uint64, name func() string, now int64) *Shape {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	next := map[uint64]*Shape{}
	if all := sh.all.Load(); all != nil {
		if s := (*all)[hash]; s != nil {
			return s
		}
		next = maps.Clone(*all)
	}
	if most := int(sh.most.Load()); len(next) >= most {
		sh.evictAt.Store(now>>coarseShift + 1)
		oldest := slices.SortedFunc(maps.Keys(next), func(a, b uint64) int {
			if age := int(next[b].touched.since(next[a].touched.at())); age != 0 {
				return age
			}
			return cmp.Compare(next[a].ended.Load(), next[b].ended.Load())
		})
		for _, h := range oldest[:min(max(len(next)-most+1, most/8, 1), len(oldest))] {
			delete(next, h)
		}
	}
	text := name()
	s := &Shape{name: text[:min(len(text), maxShapeName)]}
	s.touched.note(now)
	next[hash] = s
	sh.all.Store(&next)
	return s
}

// apply takes over how many shapes are learned.
func (sh *shapes) apply(most int) {
	sh.most.Store(int64(min(max(most, 0), maxShapes)))
}

// cost returns what a request of the shape is seen to cost, as a multiple of what
// requests cost in the mean; 1 while little is known.
func (sh *shapes) cost(s *Shape) float64 {
	if s == nil || s.ended.Load() < knownAfter {
		return 1
	}
	time := ratio(s.mean.mean(), sh.mean.mean())
	bytes, all := s.bytes.Load(), sh.bytes.Load()
	if bytes == 0 || all == 0 {
		return time
	}
	return (time + ratio(float64(bytes)/float64(s.ended.Load()), float64(all)/float64(max(sh.ended.Load(), 1)))) / 2
}

// ratio returns a/b within the bounds of a cost, 1 where it means nothing.
func ratio(a, b float64) float64 {
	if !(a > 0) || !(b > 0) {
		return 1
	}
	return min(max(a/b, leastCost), mostCost)
}

// learned takes a request's end into account. It returns by how much it cost more
// than its shape is taken to, as a multiple of the mean; less than zero = less.
func (sh *shapes) learned(now int64, s *Shape, latency time.Duration) (more float64) {
	took := float64(min(max(latency, 1), maxLatency))
	if s.ended.Load() >= knownAfter {
		more = ratio(took, sh.mean.mean()) - ratio(s.mean.mean(), sh.mean.mean())
	}
	second := uint32(now >> coarseShift)
	s.mean.add(second, took)
	sh.mean.add(second, took)
	s.ended.Add(1)
	sh.ended.Add(1)
	s.busy.Add(int64(took))
	s.touched.note(now)
	return more
}

// A best time settles where a tenth of the requests take less. It moves fast at
// first, and then by a thousandth for each request: an overload of a minute must
// not make everybody look alike.
const (
	bestShare = 0.1
	firstStep = 0.3
	lastStep  = 0.001
)

// alone takes a latency into account and returns what the shape takes when nobody
// is in its way, in ns: what a tenth of its requests of late stayed below. The mean
// would not do: while one shape delays all it does not say whose the delay is.
func (s *Shape) alone(latency float64) float64 {
	step := min(max(5/float64(s.ended.Load()+1), lastStep), firstStep)
	old := s.best.Load()
	best := math.Float64frombits(old)
	switch {
	case best == 0:
		best = latency
	case latency < best:
		best *= 1 - step*(1-bestShare)
	default:
		best *= 1 + step*bestShare
	}
	s.best.CompareAndSwap(old, math.Float64bits(best))
	return best
}

// Carried tells how many bytes a request moved, which is a part of what its shape
// costs. Without a shape it does nothing.
func (p *Permit) Carried(bytes int64) {
	if p.shape != nil && bytes > 0 {
		p.shape.bytes.Add(uint64(bytes))
		p.spec.part.gate.shapes.bytes.Add(uint64(bytes))
	}
}

// ShapeStatus is what is known of a shape.
type ShapeStatus struct {
	Name    string
	Ended   uint64
	Refused uint64
	Mean    time.Duration // at the backend, of late
	Share   float64       // of the time that all took, 0 to 1
	Bytes   uint64
	Cost    float64 // as a multiple of the mean request
}

// Shapes returns the shapes that took most of the backend's time, the greatest
// first, most of them at most.
func (g *Gate) Shapes(most int) []ShapeStatus {
	sh := &g.shapes
	all := sh.all.Load()
	if all == nil {
		return nil
	}
	list := slices.Collect(maps.Values(*all))
	if sh.other.ended.Load() > 0 {
		list = append(list, &sh.other)
	}
	total := int64(0)
	out := make([]ShapeStatus, 0, len(list))
	for _, s := range list {
		total += s.busy.Load()
	}
	slices.SortFunc(list, func(a, b *Shape) int { return int(min(max(b.busy.Load()-a.busy.Load(), -1), 1)) })
	for _, s := range list[:min(len(list), most)] {
		out = append(out, ShapeStatus{
			Name: s.name, Ended: s.ended.Load(), Refused: s.refused.Load(), Bytes: s.bytes.Load(), Cost: sh.cost(s),
			Mean: time.Duration(s.mean.mean()), Share: float64(s.busy.Load()) / float64(max(total, 1)),
		})
	}
	return out
}

// priced returns the tokens of a request of a shape. What a bucket can never hold
// is not asked of it at once; the rest is charged when the request ends.
func (s *partitionSpec) priced(cost float64, shape *Shape) float64 {
	cost = tokens(cost) * s.part.gate.shapes.cost(shape)
	return min(cost, max(s.ingress.Burst(), leastCost), max(s.own.Burst(), leastCost))
}
