package lab

import (
	"math"
	"time"

	"github.com/admitd/admitd/internal/eventqueue"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// Backend is a model of what is protected: N workers that serve one request
// each behind a queue, or N processors that all requests inside share, and a
// service that gets slower the more is inside. It is used by the goroutine of its
// [World] alone.
type Backend struct {
	w    *World
	spec scenario.BackendSpec
	now  scenario.Health

	queue   []*job // oldest first; those that were cancelled are still in it
	head    int
	waiting int // jobs in the queue that were not cancelled
	busy    int
	shared  shared // where processors are shared
}

// job is a request inside the backend.
type job struct {
	cost float64
	at   int64 // virtual ns when it came in
	by   requester
	// state of the job; only a waiting or a running one can be cancelled.
	state jobState
}

// requester is told how its request ended. Exactly one of the methods is called,
// also when the caller has gone, unless the job was cancelled.
type requester interface {
	served()
	failed() // it waited for a worker for too long
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
func (b *Backend) submit(cost float64, by requester) *job {
	if b.spec.Queue > 0 && b.waiting >= b.spec.Queue {
		return nil
	}
	j := &job{cost: max(cost, 0), at: b.w.now, by: by}
	if b.spec.Shares() {
		b.share(j)
		return j
	}
	b.queue = append(b.queue, j)
	b.waiting++
	b.serve()
	if t := time.Duration(b.spec.QueueTimeout); t > 0 && j.state == jobWaiting {
		b.w.After(t, func() { b.giveUp(j) })
	}
	return j
}

// giveUp fails a job that no worker has taken up.
func (b *Backend) giveUp(j *job) {
	if j.state == jobWaiting {
		j.state = jobOver
		b.waiting--
		j.by.failed()
	}
}

// hangUp tells the backend that nobody listens for the answer. A backend that
// stops then has a worker, or a place in its queue, for somebody else.
func (b *Backend) hangUp(j *job) {
	if b.spec.Cancelled != scenario.Stops || j.state == jobOver {
		return
	}
	if b.spec.Shares() {
		b.shared.advance(b)
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
	if b.spec.Shares() {
		b.shared.plan(b)
		return
	}
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
	b.answer(j)
	b.serve()
}

// answer tells who asked that a job is done.
func (b *Backend) answer(j *job) {
	if b.now.Delay > 0 {
		b.w.After(b.now.Delay, j.by.served)
	} else {
		j.by.served()
	}
}

// serviceTime draws the time one request takes now.
func (b *Backend) serviceTime(cost float64) time.Duration {
	return time.Duration(b.spec.Service.Draw(b.w.service, b.now.Share) * cost * b.slowness())
}

// slowness returns how many times as long a service takes as it does alone on a
// healthy backend.
func (b *Backend) slowness() float64 {
	thrash := 1 + b.spec.Thrash*float64(max(b.Inside()-b.now.Workers, 0))
	return thrash * b.spec.Contention.Factor(b.busy) * b.now.Speed
}

// set changes the backend's health from now on.
func (b *Backend) set(h scenario.Health) {
	if b.spec.Shares() {
		b.shared.advance(b)
	}
	b.now = h
	b.serve()
}

// shared is the state of processors that all requests inside share (processor
// sharing): with n of them inside each gets min(1, processors/n) of one processor.
// Since all get the same, one counter of what each has received orders them.
type shared struct {
	received float64                // ns of service that a request inside from the beginning would have received
	since    int64                  // virtual ns up to which received counts
	turn     uint64                 // of the completion that is planned
	inside   eventqueue.Queue[*job] // by what received will be when they are done; those cancelled are still in it
}

// share takes a request in.
func (b *Backend) share(j *job) {
	b.shared.advance(b)
	service := b.spec.Service.Draw(b.w.service, b.now.Share) * j.cost
	j.state = jobRunning
	b.busy++
	b.shared.inside.Add(int64(b.shared.received+service), j)
	b.shared.plan(b)
}

// rate is the ns of service that each request inside receives per ns.
func (s *shared) rate(b *Backend) float64 {
	if b.now.Frozen || b.busy == 0 {
		return 0
	}
	return math.Min(1, float64(b.now.Workers)/float64(b.busy)) / b.slowness()
}

// advance counts what was received up to now. It is called before the number of
// requests inside or the health changes.
func (s *shared) advance(b *Backend) {
	s.received += float64(b.w.now-s.since) * s.rate(b)
	s.since = b.w.now
}

// plan plans the next completion.
func (s *shared) plan(b *Backend) {
	s.turn++
	done, ok := s.inside.Next()
	rate := s.rate(b)
	if !ok || rate == 0 {
		return
	}
	turn := s.turn
	b.w.After(time.Duration(math.Ceil(math.Max(0, float64(done)-s.received)/rate)), func() {
		if turn == s.turn {
			s.complete(b)
		}
	})
}

// complete ends the service of those that have received theirs.
func (s *shared) complete(b *Backend) {
	s.advance(b)
	var done []*job
	for at, ok := s.inside.Next(); ok && float64(at) <= s.received+1; at, ok = s.inside.Next() {
		if _, j := s.inside.Take(); j.state == jobRunning {
			j.state = jobOver
			b.busy--
			done = append(done, j)
		}
	}
	for _, j := range done {
		b.answer(j)
	}
	s.plan(b)
}
