package limiter

import (
	"sync"
	"sync/atomic"
)

// shedder refuses what does not matter enough while those who share a limit find
// no room in it. Without an overload it is one pointer that is nil: nothing is
// counted, and no request reads more than that. The zero shedder is ready.
type shedder struct {
	watch atomic.Pointer[watch] // nil = nobody was short of late
}

// watch is one overload: from the first request that found no room until nobody
// has been shed or short for a second.
type watch struct {
	line  atomic.Uint32         // see helm; what is above it is shed
	due   atomic.Int64          // monotonic ns when the line moves next
	floor [ranks]atomic.Int64   // requests, in 1/1024, that may pass whatever the line
	hour  atomic.Int64          // changes the cohorts
	_     [64]byte              // what follows is written by every request
	seen  [levels]atomic.Uint32 // offered since the last turn, by level
	shed  atomic.Uint32
	short atomic.Uint32
	fed   atomic.Uint32 // served after a wait

	mu    sync.Mutex // guards the fields below; only ever tried, never waited for
	began int64      // monotonic ns of the last turn
	helm  helm
}

// oneFloor is one request in the unit of watch.floor.
const oneFloor = 1024

// pass is how a request passed the line.
type pass uint8

const (
	below   pass = iota
	byFloor      // although it is above
	shedded      // it did not
)

// entry is how a request comes to ask for a permit. The zero entry is that of all
// where there are no classes.
type entry struct {
	rank rank
	how  pass
}

// decide says whether a request of a class passes the line. coin is a random
// number, asked for only on the very line.
func (w *watch) decide(r rank, hash uint64, coin func() uint64) pass {
	level := uint32(r)*cohorts + cohortOf(hash, w.hour.Load())
	w.seen[level].Add(1)
	line, from := w.line.Load(), level*grain
	if from+grain <= line || from < line && uint32(coin()%grain) < line-from {
		return below
	}
	w.shed.Add(1) // the floor is beside the line: it must not move it
	for f := &w.floor[r]; ; {
		left := f.Load()
		if left < oneFloor {
			return shedded
		}
		if f.CompareAndSwap(left, left-oneFloor) {
			return byFloor
		}
	}
}

// begin returns the watch, a new one when there was none.
func (s *shedder) begin(now int64) *watch {
	if w := s.watch.Load(); w != nil {
		return w
	}
	w := &watch{began: now}
	w.line.Store(everybody)
	w.due.Store(now + helmEvery)
	w.hour.Store(now / hourNanos)
	if s.watch.CompareAndSwap(nil, w) {
		return w
	}
	return s.watch.Load()
}

// hourNanos is an hour: for so long a tenant stays in its cohort.
const hourNanos = int64(3600e9)

// turn moves the line when that is due. Who finds somebody else at it goes on.
func (s *shedder) turn(w *watch, now int64, floor *[ranks]float64) {
	due := w.due.Load()
	if now < due || !w.due.CompareAndSwap(due, now+helmEvery) || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	b := logbook{span: float64(max(now-w.began, 1)), shed: w.shed.Swap(0), short: w.short.Swap(0), served: w.fed.Swap(0)}
	got := -float64(b.shed) - float64(b.short) + float64(b.served)
	for i := range b.offered {
		b.offered[i] = w.seen[i].Swap(0)
		got += float64(b.offered[i])
	}
	w.began = now
	w.hour.Store(now / hourNanos)
	line, over := w.helm.turn(&b)
	w.line.Store(line)
	for r, share := range floor {
		w.refill(rank(r), share, max(got, 0), b.span)
	}
	if over {
		s.watch.CompareAndSwap(w, nil)
	}
}

// refill lets a class have its share of what got in, at least one request a
// second, and at most as much as a second brings.
func (w *watch) refill(r rank, share, got, span float64) {
	if share <= 0 {
		return
	}
	seconds := span / 1e9
	add := max(share*got, seconds)
	most := max(add/seconds, 1)
	w.floor[r].Store(int64(min(float64(w.floor[r].Load())+add*oneFloor, most*oneFloor)))
}

// passes asks the line about a request. now may be unread; it is read for one in
// sixteen of those that are shed, so that the line moves when nobody else does.
func (s *partitionSpec) passes(now int64, req *Request) entry {
	e := entry{rank: s.classes.rank(req.Class)}
	w := s.shed.watch.Load()
	if w == nil {
		return e
	}
	p := s.part
	e.how = w.decide(e.rank, p.hash, p.gate.rand)
	if e.how == shedded && w.shed.Load()%16 == 1 {
		s.shed.turn(w, p.gate.clock.at(now), &s.classes.Floor)
	}
	return e
}

// unroomed notes that a request passed the line and found no room. Those who only
// wait behind a few others have found it.
func (s *partitionSpec) unroomed(now int64, e entry, shape *Shape) {
	if shape != nil {
		s.part.culprit.unroomed(shape)
	}
	if s.shed == nil {
		return
	}
	w := s.shed.watch.Load()
	if w == nil {
		w = s.shed.begin(s.part.gate.clock.at(now))
		w.seen[uint32(e.rank)*cohorts+cohortOf(s.part.hash, w.hour.Load())].Add(1)
	}
	if e.how == byFloor {
		w.floor[e.rank].Add(oneFloor) // for the next one
		return
	}
	w.short.Add(1)
}

// steered moves the line when that is due; now is read.
func (s *partitionSpec) steered(now int64) {
	if s.shed == nil {
		return
	}
	if w := s.shed.watch.Load(); w != nil {
		s.shed.turn(w, now, &s.classes.Floor)
	}
}

// threshold returns the last level that is served, [topLevel] for everybody.
func (s *shedder) threshold() int {
	if s == nil {
		return topLevel
	}
	if w := s.watch.Load(); w != nil {
		return levelOf(w.line.Load())
	}
	return topLevel
}
