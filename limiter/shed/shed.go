// Package shed says who makes way while those who share a limit find no room in it: the
// classes that matter least, and of the class where the line runs a share of its
// tenants. It knows neither partitions nor limits: it is told what became of
// requests, and asked about each.
package shed

import (
	"sync"
	"sync/atomic"
)

// Shedder refuses what does not matter enough while those who share a limit find
// no room in it. Without an overload it is one pointer that is nil: nothing is
// counted, and no request reads more than that. The zero Shedder is ready.
type Shedder struct {
	watch atomic.Pointer[overload] // nil = nobody was short of late
}

// watch is one overload: from the first request that found no room until nobody
// has been shed or short for a second.
type overload struct {
	line  atomic.Uint32         // see thresholdController; what is above it is shed
	due   atomic.Int64          // monotonic ns when the line moves next
	floor [Ranks]atomic.Int64   // requests, in 1/1024, that may pass whatever the line
	hour  atomic.Int64          // changes the cohorts
	_     [64]byte              // what follows is written by every request
	seen  [levels]atomic.Uint32 // offered since the last turn, by level
	shed  atomic.Uint32
	short atomic.Uint32
	fed   atomic.Uint32 // served after a wait

	mu         sync.Mutex // guards the fields below; only ever tried, never waited for
	began      int64      // monotonic ns of the last turn
	controller thresholdController
}

// oneFloor is one request in the unit of watch.floor.
const oneFloor = 1024

// Pass is how a request passed the line.
type Pass uint8

// How requests pass.
const (
	Below   Pass = iota
	ByFloor      // although it is above
	Refused      // it did not
)

// decide says whether a request of a class passes the line. coin is a random
// number, asked for only on the very line.
func (w *overload) decide(r Rank, hash uint64, coin func() uint64) Pass {
	level := uint32(r)*cohorts + cohortOf(hash, w.hour.Load())
	w.seen[level].Add(1)
	line, from := w.line.Load(), level*grain
	if from+grain <= line || from < line && uint32(coin()%grain) < line-from {
		return Below
	}
	w.shed.Add(1) // the floor is beside the line: it must not move it
	for f := &w.floor[r]; ; {
		left := f.Load()
		if left < oneFloor {
			return Refused
		}
		if f.CompareAndSwap(left, left-oneFloor) {
			return ByFloor
		}
	}
}

// Decide says how a request of a class passes the line: everybody does while no
// overload is watched. hash tells partitions apart, and is the same in every gate;
// coin is a random number, asked for only on the very line. due asks the caller to
// call [Shedder.Turn]: that is so for one in sixteen of those that are refused, so
// that the line moves when nobody else does.
func (s *Shedder) Decide(r Rank, hash uint64, coin func() uint64) (p Pass, due bool) {
	w := s.watch.Load()
	if w == nil {
		return Below, false
	}
	p = w.decide(r, hash, coin)
	return p, p == Refused && w.shed.Load()%16 == 1
}

// Lapse reports whether the line is of long ago, and ends the watch then: there is
// room, as the caller has seen, and nobody came in the second since it was to move.
func (s *Shedder) Lapse(now int64) bool {
	w := s.watch.Load()
	if w == nil {
		return true
	}
	return now-w.due.Load() >= quietTurns*adjustEvery && s.watch.CompareAndSwap(w, nil)
}

// Watching reports whether there is an overload.
func (s *Shedder) Watching() bool { return s.watch.Load() != nil }

// Begin watches an overload, unless one is watched already: a request of a class
// found no room.
func (s *Shedder) Begin(now int64, r Rank, hash uint64) {
	w := &overload{began: now}
	w.line.Store(everybody)
	w.due.Store(now + adjustEvery)
	w.hour.Store(now / hourNanos)
	if !s.watch.CompareAndSwap(nil, w) {
		if w = s.watch.Load(); w == nil {
			return // over already
		}
	}
	w.seen[uint32(r)*cohorts+cohortOf(hash, w.hour.Load())].Add(1)
}

// Short notes that a request passed the line and found no room.
func (s *Shedder) Short(r Rank, p Pass) {
	w := s.watch.Load()
	switch {
	case w == nil:
	case p == ByFloor:
		w.floor[r].Add(oneFloor) // for the next one
	default:
		w.short.Add(1)
	}
}

// Fed notes that a request was served after a wait.
func (s *Shedder) Fed() {
	if w := s.watch.Load(); w != nil {
		w.fed.Add(1)
	}
}

// hourNanos is an hour: for so long a tenant stays in its cohort.
const hourNanos = int64(3600e9)

// Turn moves the line when that is due as of now; floor is the share of what gets in
// that each class keeps, and use returns the share of the limit that is used. Who finds somebody else at it goes on.
func (s *Shedder) Turn(now int64, floor *[Ranks]float64, use func() float64) {
	w := s.watch.Load()
	if w == nil {
		return
	}
	due := w.due.Load()
	if now-due >= quietTurns*adjustEvery { // nobody came for a second: what was counted is of long ago
		s.watch.CompareAndSwap(w, nil)
		return
	}
	if now < due || !w.due.CompareAndSwap(due, now+adjustEvery) || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	b := thresholdSamples{span: float64(max(now-w.began, 1)), use: use(), shed: w.shed.Swap(0), short: w.short.Swap(0), served: w.fed.Swap(0)}
	got := -float64(b.shed) - float64(b.short) + float64(b.served)
	for i := range b.offered {
		b.offered[i] = w.seen[i].Swap(0)
		got += float64(b.offered[i])
	}
	w.began = now
	w.hour.Store(now / hourNanos)
	line, over := w.controller.turn(&b)
	w.line.Store(line)
	for r, share := range floor {
		w.refill(Rank(r), share, max(got, 0), b.span)
	}
	if over {
		s.watch.CompareAndSwap(w, nil)
	}
}

// refill lets a class have its share of what got in, at least one request a
// second, and at most as much as a second brings.
func (w *overload) refill(r Rank, share, got, span float64) {
	if share <= 0 {
		return
	}
	seconds := span / 1e9
	add := max(share*got, seconds)
	most := max(add/seconds, 1)
	w.floor[r].Store(int64(min(float64(w.floor[r].Load())+add*oneFloor, most*oneFloor)))
}

// Threshold returns the last level that is served, [TopLevel] for everybody; a nil
// Shedder serves them.
func (s *Shedder) Threshold() int {
	if s == nil {
		return TopLevel
	}
	if w := s.watch.Load(); w != nil {
		return levelOf(w.line.Load())
	}
	return TopLevel
}
