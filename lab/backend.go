package lab

import "time"

// Backend is a model of what is protected: N workers that serve one request
// each, a queue before them, and a service that gets slower the more is inside.
type Backend struct {
	w    *World
	spec BackendSpec
	now  health

	queue   []*job // oldest first; those that were cancelled are still in it
	head    int
	waiting int // jobs in the queue that were not cancelled
	busy    int
}

// health is the state of a backend.
type health struct {
	speed   float64       // factor on every service time; 1 = healthy
	delay   time.Duration // pure delay added to every request
	frozen  bool          // serves nothing
	workers int
	share   float64 // of the service's other part
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

// BackendSpec describes a [Backend].
type BackendSpec struct {
	// Workers serve one request each; > 0.
	Workers int `yaml:"workers"`
	// Service is the time a worker needs for one request.
	Service ServiceSpec `yaml:"service"`
	// Thrash makes every service longer by this share per request inside
	// beyond the workers: 0.002 is 0.2 %.
	Thrash float64 `yaml:"thrash"`
	// Contention makes every service longer the more are being served.
	Contention ContentionSpec `yaml:"contention"`
	// Queue bounds the requests that wait for a worker; beyond it the backend
	// refuses. 0 = unbounded.
	Queue int `yaml:"queue"`
	// Cancelled says what becomes of work whose connection was closed:
	// continues (it is done for nobody) or stops. "" = continues.
	Cancelled string `yaml:"cancelled"`
}

// ContentionSpec is the universal scalability law: with n requests being served,
// each takes 1 + Serial*(n-1) + Crosstalk*n*(n-1) times as long.
type ContentionSpec struct {
	Serial    float64 `yaml:"serial"`
	Crosstalk float64 `yaml:"crosstalk"`
}

// factor returns how much longer a service takes with n being served.
func (c *ContentionSpec) factor(n int) float64 {
	return 1 + c.Serial*float64(n-1) + c.Crosstalk*float64(n)*float64(n-1)
}

// Capacity returns the requests per second that the healthy backend can serve.
func (s *BackendSpec) Capacity() float64 { return s.capacity(s.healthy()) }

// healthy returns the state of a backend that nothing is wrong with.
func (s *BackendSpec) healthy() health {
	return health{speed: 1, workers: s.Workers, share: s.Service.Share}
}

// capacity returns the requests per second that can be served in a state: with
// contention, at the best number of busy workers.
func (s *BackendSpec) capacity(h health) float64 {
	if h.frozen {
		return 0
	}
	alone := 1 / (s.Service.mean(h.share).Seconds() * h.speed)
	if s.Contention == (ContentionSpec{}) {
		return alone * float64(h.workers)
	}
	best := 0.0
	for n := 1; n <= h.workers; n++ {
		best = max(best, alone*float64(n)/s.Contention.factor(n))
	}
	return best
}

// newBackend returns a healthy, idle backend.
func newBackend(w *World, spec BackendSpec) *Backend {
	return &Backend{w: w, spec: spec, now: spec.healthy()}
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
	if b.spec.Cancelled != stops || j.state == jobOver {
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
	for b.busy < b.now.workers && b.waiting > 0 && !b.now.frozen {
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
	if b.now.delay > 0 {
		b.w.After(b.now.delay, j.by.served)
	} else {
		j.by.served()
	}
	b.serve()
}

// serviceTime draws the time one request takes now.
func (b *Backend) serviceTime(cost float64) time.Duration {
	slow := 1 + b.spec.Thrash*float64(max(b.Inside()-b.now.workers, 0))
	slow *= b.spec.Contention.factor(b.busy)
	return time.Duration(b.spec.Service.draw(b.w.service, b.now.share) * cost * slow * b.now.speed)
}

// set changes the backend's health from now on.
func (b *Backend) set(h health) {
	b.now = h
	b.serve()
}
