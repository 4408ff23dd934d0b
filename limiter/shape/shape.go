package shape

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is learned.
const (
	most    = 100_000 // shapes
	maxName = 512     // bytes
	// secondShift makes coarse seconds of monotonic ns.
	secondShift = 30
	// knownAfter is how many of a shape have ended before its cost is believed.
	knownAfter = 8
	// shapeFade is how much the past counts, for each second that passes: for a
	// shape as for all, so that a backend which slows down makes nobody dear.
	shapeFade = 0.8
	// The cost of a shape stays within these multiples of the usual one.
	Least, mostCost = 0.05, 1000
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
	touched atomic.Uint32 // coarse second of the last end
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

// Table is the shapes that a gate has seen, by a hash of what they are. The zero Table
// learns nothing until [Table.Apply]. It is safe for concurrent use.
type Table struct {
	all   atomic.Pointer[map[uint64]*Shape]
	other Shape  // of all beyond the bound
	mean  recent // ns that a request takes, over all
	bytes atomic.Uint64
	ended atomic.Uint64
	bound atomic.Int64 // 0 = nothing is learned
	// evictAt is the coarse second before which nobody makes room. It is read without
	// mu, or a flood of new shapes would wait for each other.
	evictAt atomic.Int64

	mu sync.Mutex // guards changes of all and evictAt
}

// Find returns the shape with the given hash, which name describes; it is asked for
// only when the shape is new. nil when nothing is learned. Shapes that
// are asked for least make room for new ones, at most an eighth of them a
// second; until then what is new is one shape, "other". now reads monotonic ns.
func (t *Table) Find(hash uint64, name func() string, now func() int64) *Shape {
	bound := t.bound.Load()
	if bound == 0 {
		return nil
	}
	if all := t.all.Load(); all != nil {
		if s := (*all)[hash]; s != nil {
			return s
		}
		if int64(len(*all)) >= bound && !t.mayEvict(now()) {
			return &t.other
		}
	}
	return t.add(hash, name, now())
}

// Learns reports whether anything is learned.
func (t *Table) Learns() bool { return t.bound.Load() > 0 }

// mayEvict reports whether it is time to make room again.
func (t *Table) mayEvict(now int64) bool { return now>>secondShift >= t.evictAt.Load() }

// add enters a shape. It copies the table, since shapes are new seldom.
func (t *Table) add(hash uint64, name func() string, now int64) *Shape {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[uint64]*Shape{}
	if all := t.all.Load(); all != nil {
		if s := (*all)[hash]; s != nil {
			return s
		}
		next = maps.Clone(*all)
	}
	if bound := int(t.bound.Load()); len(next) >= bound {
		t.evictAt.Store(now>>secondShift + 1)
		oldest := slices.SortedFunc(maps.Keys(next), func(a, b uint64) int {
			if age := int32(next[a].touched.Load() - next[b].touched.Load()); age != 0 {
				return int(age)
			}
			return cmp.Compare(next[a].ended.Load(), next[b].ended.Load())
		})
		for _, h := range oldest[:min(max(len(next)-bound+1, bound/8, 1), len(oldest))] {
			delete(next, h)
		}
	}
	text := name()
	s := &Shape{name: text[:min(len(text), maxName)]}
	s.touched.Store(uint32(now >> secondShift))
	next[hash] = s
	t.all.Store(&next)
	return s
}

// Apply takes over how many shapes are learned; 0 = none, and 100,000 at most.
func (t *Table) Apply(bound int) {
	t.bound.Store(int64(min(max(bound, 0), most)))
}

// Cost returns what a request of the shape is seen to cost, as a multiple of what
// requests cost in the mean; 1 while little is known.
func (t *Table) Cost(s *Shape) float64 {
	if s == nil || s.ended.Load() < knownAfter {
		return 1
	}
	byTime := ratio(s.mean.mean(), t.mean.mean())
	bytes, all := s.bytes.Load(), t.bytes.Load()
	if bytes == 0 || all == 0 {
		return byTime
	}
	return (byTime + ratio(float64(bytes)/float64(s.ended.Load()), float64(all)/float64(max(t.ended.Load(), 1)))) / 2
}

// ratio returns a/b within the bounds of a cost, 1 where it means nothing.
func ratio(a, b float64) float64 {
	if !(a > 0) || !(b > 0) {
		return 1
	}
	return min(max(a/b, Least), mostCost)
}

// Learned takes a request's end into account. It returns by how much it cost more
// than its shape is taken to, as a multiple of the mean; less than zero = less. latency is
// above zero.
func (t *Table) Learned(now int64, s *Shape, latency time.Duration) (more float64) {
	took := float64(latency)
	if s.ended.Load() >= knownAfter {
		more = ratio(took, t.mean.mean()) - ratio(s.mean.mean(), t.mean.mean())
	}
	second := uint32(now >> secondShift)
	s.mean.add(second, took)
	t.mean.add(second, took)
	s.ended.Add(1)
	t.ended.Add(1)
	s.busy.Add(int64(took))
	s.touched.Store(second)
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

// Status is what is known of a shape.
type Status struct {
	Name    string
	Ended   uint64
	Refused uint64
	Mean    time.Duration // at the backend, of late
	Share   float64       // of the time that all took, 0 to 1
	Bytes   uint64
	Cost    float64 // as a multiple of the mean request
}

// Refused counts a request of the shape that was refused because the shape is capped.
func (s *Shape) Refused() { s.refused.Add(1) }

// Carried counts bytes that a request of the shape moved, which is a part of what it
// costs.
func (t *Table) Carried(s *Shape, bytes uint64) {
	s.bytes.Add(bytes)
	t.bytes.Add(bytes)
}

// List returns the shapes that took most of the backend's time, the greatest
// first, most of them at most.
func (t *Table) List(most int) []Status {
	all := t.all.Load()
	if all == nil {
		return nil
	}
	list := slices.Collect(maps.Values(*all))
	if t.other.ended.Load() > 0 {
		list = append(list, &t.other)
	}
	total := int64(0)
	out := make([]Status, 0, len(list))
	for _, s := range list {
		total += s.busy.Load()
	}
	slices.SortFunc(list, func(a, b *Shape) int { return int(min(max(b.busy.Load()-a.busy.Load(), -1), 1)) })
	for _, s := range list[:min(len(list), most)] {
		out = append(out, Status{
			Name: s.name, Ended: s.ended.Load(), Refused: s.refused.Load(), Bytes: s.bytes.Load(), Cost: t.Cost(s),
			Mean: time.Duration(s.mean.mean()), Share: float64(s.busy.Load()) / float64(max(total, 1)),
		})
	}
	return out
}
