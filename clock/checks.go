package clock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	glanceReads  = 64
	regularReads = 2000
	startReads   = 20_000
	acrossReads  = 100_000 // by each of two threads

	suspectGranularity = time.Microsecond
	badGranularity     = 100 * time.Microsecond
	slowRead           = 500 * time.Nanosecond
	longestWait        = 20 * time.Millisecond // for the next step of a coarse clock

	lateTick  = 500 * time.Millisecond
	suspended = 10 * time.Millisecond
	ahead     = 10 * time.Millisecond
	wallStep  = 50 * time.Millisecond
	atOnce    = time.Millisecond
)

// instant is all clocks, read as if at once.
type instant struct {
	mono, boot, wall int64
	hasBoot          bool
}

// readAll reads all clocks. ok is false when the thread was taken away between
// them each time it tried: they cannot be compared then.
func readAll(now func() int64, s Sources) (i instant, ok bool) {
	for range 5 {
		i.mono = now()
		i.boot, i.hasBoot = s.Boottime()
		i.wall = s.Wall()
		if apart := time.Duration(now() - i.mono); apart < atOnce && apart > -atOnce {
			return i, true
		}
	}
	return i, false
}

// compareClocks judges how far each clock moved since they were last compared,
// and begins a new epoch where intervals broke.
func (g *Guard) compareClocks() {
	now, ok := readAll(g.Now, g.o.Sources)
	if !ok {
		return
	}
	found := compare(g.seen.last, now)
	g.seen.last = now
	if len(found) > 0 && found[0] != WallStep {
		g.epoch.Add(1)
	}
	g.judge(found)
}

// compare judges one tick. The guarded clock may lag behind the boot clock, by
// the length of a suspension; it can never lead. The wall clock proves nothing
// by itself, since anyone may set it.
func compare(before, now instant) []Reason {
	mono := time.Duration(now.mono - before.mono)
	wall := time.Duration(now.wall - before.wall)
	boot := time.Duration(now.boot - before.boot)
	other := wall
	if now.hasBoot {
		other = boot
	}
	switch {
	case mono < 0:
		return []Reason{Decreasing}
	case mono == 0 && other > suspended:
		return []Reason{Stopped}
	case now.hasBoot && mono-boot > ahead:
		return []Reason{Jumped}
	case now.hasBoot && boot-mono > suspended:
		return []Reason{Suspended}
	case mono > tick+lateTick:
		return []Reason{Paused}
	case wall-mono > wallStep || mono-wall > wallStep:
		return []Reason{WallStep}
	default:
		return nil
	}
}

// steps reads the clock n times in a row and judges the steps between.
func (g *Guard) steps(n int) []Reason {
	shortest := time.Duration(g.shortest.Load())
	s := readSteps(g.Now, n)
	if s.equal*2 > n {
		// The step is wider than a glance: wait for it.
		s.smallest = g.awaitStep()
	}
	var found []Reason
	switch {
	case s.decreasing:
		found = append(found, Decreasing)
	case s.smallest < 0:
		found = append(found, Stopped)
	case s.smallest > badGranularity || (shortest > 0 && s.smallest > shortest/100):
		found = append(found, Coarse)
	case s.equal*2 > n || s.smallest > suspectGranularity:
		found = append(found, Equal)
	}
	if n >= regularReads && s.cost > slowRead {
		found = append(found, SlowRead)
	}
	return found
}

// stepping is what a row of readings shows.
type stepping struct {
	decreasing bool
	equal      int
	smallest   time.Duration // step above zero; 0 = there was none
	cost       time.Duration // median cost of a reading
}

// readSteps reads the clock n times in batches, so that the scheduler, when it
// takes the thread away, spoils the cost of one batch only.
func readSteps(now func() int64, n int) stepping {
	const batch = 100
	var s stepping
	costs := make([]time.Duration, 0, n/batch+1)
	first := now()
	last := first
	for i := range n {
		reading := now()
		switch step := time.Duration(reading - last); {
		case step < 0:
			s.decreasing = true
		case step == 0:
			s.equal++
		case s.smallest == 0 || step < s.smallest:
			s.smallest = step
		}
		last = reading
		if (i+1)%batch == 0 {
			costs = append(costs, time.Duration(last-first)/batch)
			first = last
		}
	}
	if len(costs) > 0 {
		slices.Sort(costs)
		s.cost = costs[len(costs)/2]
	}
	return s
}

// awaitStep returns the clock's next whole step, or -1 when the wall clock
// went on for 20 ms without one. It holds a processor meanwhile, which happens
// only to clocks that are out of order.
func (g *Guard) awaitStep() time.Duration {
	wall := g.o.Sources.Wall
	deadline := wall() + int64(longestWait)
	edge, last := int64(0), g.Now()
	for wall() < deadline {
		reading := g.Now()
		if reading == last {
			continue
		}
		if edge != 0 {
			return time.Duration(reading - last)
		}
		edge, last = reading, reading
	}
	if edge != 0 {
		return longestWait // one step, and a wait too short for a second
	}
	return -1
}

// readAcross reads the clock on two processors at a time and reports whether
// one ever saw less than the other had seen before.
func readAcross(now func() int64, each int) bool {
	var (
		latest     atomic.Int64
		decreasing atomic.Bool
		wg         sync.WaitGroup
	)
	latest.Store(now())
	for processor := range 2 {
		wg.Go(func() {
			pin(processor)
			for range each {
				seen := latest.Load()
				reading := now()
				if reading < seen {
					decreasing.Store(true)
				}
				latest.CompareAndSwap(seen, max(seen, reading))
			}
		})
	}
	wg.Wait()
	return decreasing.Load()
}
