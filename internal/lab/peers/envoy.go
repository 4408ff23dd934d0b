package peers

import (
	"math"
	"slices"
	"time"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/limiter"
)

// What the documentation of Envoy's adaptive concurrency filter states as its
// defaults, and for the two intervals, which have none, its example.
const (
	envoyUpdate      = 100 * time.Millisecond // between updates of the limit
	envoyMeasure     = 60 * time.Second       // between measurements of the shortest time
	envoyMeasured    = 50                     // answers that one measurement takes
	envoyJitter      = 0.15                   // of the time between measurements
	envoyBuffer      = 0.25                   // that is tolerated above the shortest time
	envoyLeast       = 3                      // permits while measuring, and at least
	envoyMost        = 1000
	envoyStuck       = 5 // updates at the least after which it measures again
	envoyLeastFactor = 0.5
	envoyMostFactor  = 2
)

// envoy plays Envoy's gradient controller by its published description. It is
// not Envoy's code, which is C++ and part of a proxy.
type envoy struct {
	w         *lab.World
	limit     float64
	inFlight  int
	shortest  time.Duration // the measured median; 0 = never measured
	samples   []time.Duration
	measuring bool
	since     int64 // virtual ns when the measurement began
	stuck     int
	epoch     int // of the measurement that is planned next
}

// envoyContender returns it as a contender.
func envoyContender() lab.Contender {
	return lab.Contender{Name: "envoy-gradient", New: func(w *lab.World) lab.Door {
		e := &envoy{w: w}
		e.measure()
		w.After(envoyUpdate, e.update)
		return e
	}}
}

// Enter implements [lab.Door].
func (e *envoy) Enter(_ lab.Request, r lab.Entrant) (withdraw func()) {
	if e.inFlight >= e.Limit() {
		r.Refused(nil)
		return nil
	}
	e.inFlight++
	start := e.w.Now()
	r.Admitted(lab.EndFunc(func(o limiter.Outcome) {
		e.inFlight--
		if o == limiter.Success {
			e.sample(start, time.Duration(e.w.Now()-start))
		}
	}))
	return nil
}

// Limit implements [lab.Door].
func (e *envoy) Limit() int { return int(e.limit) }

// measure pins the limit until enough answers to what began since then are in.
func (e *envoy) measure() {
	e.measuring, e.since, e.samples, e.limit, e.stuck = true, e.w.Now(), nil, envoyLeast, 0
}

// sample takes one answer in.
func (e *envoy) sample(start int64, latency time.Duration) {
	if e.measuring && start < e.since {
		return
	}
	e.samples = append(e.samples, latency)
	if e.measuring && len(e.samples) >= envoyMeasured {
		e.shortest, e.samples, e.measuring = median(e.samples), nil, false
		e.epoch++
		epoch := e.epoch
		jitter := float64(e.w.Rand()>>11) / (1 << 53) * envoyJitter
		e.w.After(time.Duration(float64(envoyMeasure)*(1+jitter)), func() {
			if epoch == e.epoch && !e.measuring {
				e.measure()
			}
		})
	}
}

// update moves the limit by the gradient of the last interval.
func (e *envoy) update() {
	e.w.After(envoyUpdate, e.update)
	if e.measuring || len(e.samples) == 0 {
		return
	}
	gradient := float64(e.shortest) * (1 + envoyBuffer) / float64(median(e.samples))
	e.samples = e.samples[:0]
	next := e.limit * min(max(gradient, envoyLeastFactor), envoyMostFactor)
	e.limit = min(max(next+math.Sqrt(next), envoyLeast), envoyMost)
	e.stuck++
	if e.limit > envoyLeast {
		e.stuck = 0
	}
	if e.stuck >= envoyStuck {
		e.epoch++
		e.measure()
	}
}

// median returns the middle one.
func median(list []time.Duration) time.Duration {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}
