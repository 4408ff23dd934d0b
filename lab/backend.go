package lab

import (
	"math"
	"time"
)

// Backend is a model of what is protected: N workers that serve one request
// each, a queue before them, and a service that gets slower the more is inside.
type Backend struct {
	w    *World
	spec BackendSpec

	queue  []job // oldest first
	head   int
	busy   int
	speed  float64       // factor on every service time; 1 = healthy
	delay  time.Duration // pure delay added to every request
	frozen bool          // serves nothing
}

// job is a request inside the backend.
type job struct {
	cost float64
	at   int64 // virtual ns when it came in
	done func()
}

// BackendSpec describes a [Backend].
type BackendSpec struct {
	// Workers serve one request each; > 0.
	Workers int `yaml:"workers"`
	// Service is the time a worker needs for one request.
	Service ServiceSpec `yaml:"service"`
	// Thrash makes every service longer by this share per request inside
	// beyond the workers: 0.002 is 0.2 %.
	Thrash float64 `yaml:"thrash"`
	// Queue bounds the requests that wait for a worker; beyond it the backend
	// refuses. 0 = unbounded.
	Queue int `yaml:"queue"`
}

// ServiceSpec is a distribution of service times.
type ServiceSpec struct {
	// Kind is constant, exponential, lognormal or bimodal.
	Kind string `yaml:"kind"`
	// Mean of the distribution; of a bimodal one, of its common part.
	Mean Duration `yaml:"mean"`
	// Sigma is the deviation of the logarithm, for lognormal.
	Sigma float64 `yaml:"sigma"`
	// Other is the constant that a Share of the requests take, for bimodal.
	Other Duration `yaml:"other"`
	// Share of the requests that take Other, in [0, 1].
	Share float64 `yaml:"share"`
}

// Capacity returns the requests per second that the healthy backend can serve.
func (s *BackendSpec) Capacity() float64 {
	mean := time.Duration(s.Service.Mean).Seconds()
	if s.Service.Kind == "bimodal" {
		mean = mean*(1-s.Service.Share) + time.Duration(s.Service.Other).Seconds()*s.Service.Share
	}
	return float64(s.Workers) / mean
}

// newBackend returns a healthy, idle backend.
func newBackend(w *World, spec BackendSpec) *Backend { return &Backend{w: w, spec: spec, speed: 1} }

// Inside returns the requests that are queued or being served, those that their
// clients have given up included.
func (b *Backend) Inside() int { return b.busy + len(b.queue) - b.head }

// QueueAge returns how long the oldest request that no worker has taken up has
// been waiting.
func (b *Backend) QueueAge() time.Duration {
	if b.head == len(b.queue) {
		return 0
	}
	return time.Duration(b.w.now - b.queue[b.head].at)
}

// Submit takes a request in; done is called when it is answered, also when
// nobody waits for it any more. It reports false when the queue is full.
func (b *Backend) Submit(cost float64, done func()) bool {
	if b.spec.Queue > 0 && len(b.queue)-b.head >= b.spec.Queue {
		return false
	}
	b.queue = append(b.queue, job{cost: max(cost, 0), at: b.w.now, done: done})
	b.serve()
	return true
}

// serve gives queued requests to idle workers.
func (b *Backend) serve() {
	for b.busy < b.spec.Workers && b.head < len(b.queue) && !b.frozen {
		j := b.queue[b.head]
		b.queue[b.head] = job{}
		b.head++
		if b.head > 1024 && b.head*2 > len(b.queue) {
			b.queue = append(b.queue[:0], b.queue[b.head:]...)
			b.head = 0
		}
		b.busy++
		b.w.After(b.serviceTime(j.cost), func() {
			b.busy--
			if b.delay > 0 {
				b.w.After(b.delay, j.done)
			} else {
				j.done()
			}
			b.serve()
		})
	}
}

// serviceTime draws the time one request takes now.
func (b *Backend) serviceTime(cost float64) time.Duration {
	s := b.spec.Service
	mean := float64(s.Mean)
	switch s.Kind {
	case "constant":
	case "lognormal":
		mean *= math.Exp(s.Sigma*b.w.service.NormFloat64() - s.Sigma*s.Sigma/2)
	case "bimodal":
		if b.w.service.Float64() < s.Share {
			mean = float64(s.Other)
		} else {
			mean *= b.w.service.ExpFloat64()
		}
	default:
		mean *= b.w.service.ExpFloat64()
	}
	slow := 1 + b.spec.Thrash*float64(max(b.Inside()-b.spec.Workers, 0))
	return time.Duration(mean * cost * slow * b.speed)
}

// set changes the backend's health from now on.
func (b *Backend) set(speed float64, delay time.Duration, frozen bool) {
	b.speed, b.delay, b.frozen = speed, delay, frozen
	b.serve()
}
