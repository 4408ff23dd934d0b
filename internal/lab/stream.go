package lab

import (
	"time"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// stream is a Poisson process whose rate changes.
type stream struct {
	g      *run
	key    func() (key string, noisy bool)
	batch  int     // requests of one arrival; 0 = 1
	rate   float64 // requests per second that the load asks for
	factor float64 // that bursts put on it, less one
	turn   uint64  // of the arrival that is awaited
}

// offered returns the requests per second now.
func (s *stream) offered() float64 { return s.rate * (1 + s.factor) }

// set changes the rate. What has no memory may be drawn anew.
func (s *stream) set(rate float64) {
	s.rate = rate
	s.turn++
	s.await(s.turn)
}

// await plans the next arrival.
func (s *stream) await(turn uint64) {
	rate := s.offered() / float64(max(s.batch, 1))
	if rate <= 0 {
		return
	}
	w := s.g.w
	w.At(w.now+int64(w.arrivals.ExpFloat64()/rate*1e9), func() {
		if turn != s.turn {
			return // the rate has changed meanwhile
		}
		for range max(s.batch, 1) {
			s.g.arrive(s.key())
		}
		s.await(turn)
	})
}

// swing turns the bursts of the load on and off.
func (g *run) swing(high bool) {
	a := &g.s.Arrivals
	factor, mean := a.Low(), a.Off
	if high {
		factor, mean = a.High, a.On
	}
	g.main.factor = factor - 1
	g.main.set(g.main.rate)
	g.w.After(time.Duration(g.w.arrivals.ExpFloat64()*float64(mean)), func() {
		if g.w.now < int64(g.s.For) {
			g.swing(!high)
		}
	})
}

// burst plans requests that arrive at one instant.
func (g *run) burst(b scenario.Burst) {
	g.w.At(int64(b.At), func() {
		for range b.Requests {
			g.arrive(g.key())
		}
		if next := b.At + b.Every; b.Every > 0 && next < g.s.For {
			g.burst(scenario.Burst{At: next, Every: b.Every, Requests: b.Requests})
		}
	})
}

// callers sends the pool off, each of them to think first. Its moments are of a
// stream of their own, so that whatever else arrives comes as without it.
func (g *run) callers() {
	r := random(g.seed, 7)
	for i := range g.s.Callers.Count {
		key := ""
		if len(g.keys) > 0 {
			key = g.keys[i%len(g.keys)]
		}
		gate := func() int { return r.IntN(len(g.doors)) }
		if g.s.Callers.Stay {
			gate = func() int { return i % len(g.doors) }
		}
		var think func()
		think = func() {
			g.w.After(time.Duration(r.ExpFloat64()*float64(g.s.Callers.Think)), func() {
				if g.w.now < int64(g.s.For) {
					g.launch(&flight{gate: gate(), key: key, tokens: 1, work: 1, then: think})
				}
			})
		}
		think()
	}
}
