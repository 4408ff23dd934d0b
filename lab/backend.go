package lab

import (
	"time"

	"github.com/admitd/admitd/lab/scenario"
)

// Backend is a model of what is protected: N workers that serve one request
// each, a queue before them, and a service that gets slower the more is inside. It
// is used by the goroutine of its [World] alone.
type Backend struct {
	w    *World
	spec scenario.BackendSpec
	now  scenario.Health

	queue   []*job // oldest first; those that were cancelled are still in it
	head    int
	waiting int // jobs in the queue that were not cancelled
	busy    int
}

// job is a request inside the backend.
type job struct {
	cost float64
	at   int64 // virtual ns when it came in
	by   interface{ served() }
	// state of the job; only a waiting or a running one can be cancelled.
	state jobState
}

type jobState uint8

const (
	jobWaiting jobState = iota
	jobRunning
	jobOver // served, or cancelled
)

// newBackend returns a healthy, idle backend.
func newBackend(w *World, spec scenario.BackendSpec) *Backend {
	return &Backend{w: w, spec: spec, now: spec.Healthy()}
}

// Inside returns the requests that are queued or being served, those that their
// clients have given up included.
func (b *Backend) Inside() int { return b.busy + b.waiting }

// QueueAge returns how long the oldest request that no worker has taken up has
// been waiting.
func (b *Backend) QueueAge() time.Duration {
	for _, j := range b.queue[b.head:] {
		if j.state == jobWaiting {
			return time.Duration(b.w.now - j.at)
		}
	}
	return 0
}

// submit takes a request in; by is told when it is answered, also when nobody
// waits for it any more. It returns nil when the queue is full.
func (b *Backend) submit(cost float64, by interface{ served() }) *job {
	if b.spec.Queue > 0 && b.waiting >= b.spec.Queue {
		return nil
	}
	j := &job{cost: max(cost, 0), at: b.w.now, by: by}
	b.queue = append(b.queue, j)
	b.waiting++
	b.serve()
	return j
}

// hangUp tells the backend that nobody listens for the answer. A backend that
// stops then has a worker, or a place in its queue, for somebody else.
func (b *Backend) hangUp(j *job) {
	if b.spec.Cancelled != scenario.Stops || j.state == jobOver {
		return
	}
	if j.state == jobRunning {
		b.busy--
	} else {
		b.waiting--
	}
	j.state = jobOver
	b.serve()
}

// serve gives queued requests to idle workers.
func (b *Backend) serve() {
	for b.busy < b.now.Workers && b.waiting > 0 && !b.now.Frozen {
		j := b.take()
		if j.state == jobOver {
			continue
		}
		b.waiting--
		b.busy++
		j.state = jobRunning
		b.w.After(b.serviceTime(j.cost), func() { b.finish(j) })
	}
}

// take removes the oldest job from the queue.
func (b *Backend) take() *job {
	j := b.queue[b.head]
	b.queue[b.head] = nil
	b.head++
	if b.head > 1024 && b.head*2 > len(b.queue) {
		b.queue = append(b.queue[:0], b.queue[b.head:]...)
		b.head = 0
	}
	return j
}

// finish ends the service of a job that was not cancelled.
func (b *Backend) finish(j *job) {
	if j.state == jobOver {
		return
	}
	j.state = jobOver
	b.busy--
	if b.now.Delay > 0 {
		b.w.After(b.now.Delay, j.by.served)
	} else {
		j.by.served()
	}
	b.serve()
}

// serviceTime draws the time one request takes now.
func (b *Backend) serviceTime(cost float64) time.Duration {
	slow := 1 + b.spec.Thrash*float64(max(b.Inside()-b.now.Workers, 0))
	slow *= b.spec.Contention.Factor(b.busy)
	return time.Duration(b.spec.Service.Draw(b.w.service, b.now.Share) * cost * slow * b.now.Speed)
}

// set changes the backend's health from now on.
func (b *Backend) set(h scenario.Health) {
	b.now = h
	b.serve()
}
