package algorithms_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/admitd/admitd/algorithms"
)

// world is the model that the limits are judged on: gates before one backend
// of workers with one FIFO queue, in virtual time, arrivals open loop. It is
// event-driven: a run of a minute takes milliseconds.
type world struct {
	workers  int
	service  time.Duration // mean
	draw     func(*rand.Rand) float64
	thrash   float64 // share by which each request inside beyond the workers slows the others
	sigma    float64 // universal scalability law: contention and coherency; with them there is no queue
	kappa    float64
	load     float64                                 // of the capacity at the beginning
	arrivals func(at time.Duration) float64          // factor on the load; nil = 1
	slow     func(at time.Duration) float64          // factor on service; nil = 1
	delay    func(at time.Duration) time.Duration    // added to latency, outside the workers; nil = none
	scale    func(at time.Duration) int              // workers; nil = workers
	mix      func(*rand.Rand, time.Duration) float64 // factor on one request's service; nil = 1
	batch    int                                     // requests that arrive at one instant; 0 = 1

	patience  time.Duration // after which a caller leaves; 0 = never
	hurried   float64       // share of callers that leave after a time of their own
	hurry     time.Duration // that time
	cancel    bool          // the backend stops when the caller leaves; otherwise it goes on
	objective time.Duration // an answer within it is good; 0 = 10 services

	gates int // 0 = 1
	queue bool
	until time.Duration
	parts []time.Duration // boundaries between the parts of the run that are counted apart
}

// tally is what callers saw in one part of a run.
type tally struct {
	offered, refused, good, late, left int
	low, high                          int // of the limit
	waited                             float64
	from, to                           time.Duration
}

func (r tally) goodput() float64  { return float64(r.good) / float64(max(1, r.offered)) }
func (r tally) refusals() float64 { return float64(r.refused) / float64(max(1, r.offered)) }
func (r tally) rate() float64     { return float64(r.good) / (r.to - r.from).Seconds() }

// outcome is a run: its parts, and the good answers of each tenth of a second.
type outcome struct {
	parts []tally
	tenth []int
}

const (
	arrive = iota
	served
	back
	gone
	giveUp
)

type event struct {
	at   int64
	kind int
	id   int
	turn int // of the request that had the id, so that old alarms find nobody
}

// agenda is a binary heap by time.
type eventQueue []event

func (a *eventQueue) push(e event) {
	h := append(*a, e)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if h[p].at <= e.at {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = e
	*a = h
}

func (a *eventQueue) pop() event {
	h := *a
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].at < h[c].at {
			c++
		}
		if h[c].at >= last.at {
			break
		}
		h[i] = h[c]
		i = c
	}
	if len(h) > 0 {
		h[i] = last
	}
	*a = h
	return top
}

type request struct {
	gate     int
	born     int64 // arrived at the gate
	start    int64 // permit granted
	inFlight int
	size     float64
	turn     int
	left     bool // the caller has gone
	done     bool
	waiting  bool
}

type door struct {
	lim      algorithms.Limit
	inFlight int
	offered  uint64
	refused  uint64
	line     []int
	held     int   // by requests whose caller has left
	since    int64 // when the line was last empty
	opens    int64 // when it takes somebody again
}

// run is one play of a world.
type run struct {
	world
	random   *rand.Rand
	todo     eventQueue
	requests []request
	free     []int
	doors    []*door
	backlog  []int
	head     int
	busy     int
	capacity float64
	now      int64
	out      outcome
	part     int
}

// play drives the limits that make makes, with everything random from seed.
func (w world) play(limit func() algorithms.Limit, seed uint64) outcome {
	w.gates = max(1, w.gates)
	if w.objective == 0 {
		w.objective = 10 * w.service
	}
	r := &run{world: w, random: rand.New(rand.NewPCG(seed, 7))}
	r.capacity = float64(w.workers) / w.service.Seconds()
	for range w.gates {
		d := &door{lim: limit()}
		if l, ok := d.lim.(interface {
			Watch(demand func() (offered, refused uint64))
		}); ok {
			l.Watch(func() (uint64, uint64) { return d.offered, d.refused })
		}
		r.doors = append(r.doors, d)
	}
	r.out.tenth = make([]int, int(w.until/(100*time.Millisecond))+1)
	from := time.Duration(0)
	for _, to := range append(append([]time.Duration{}, w.parts...), w.until) {
		r.out.parts = append(r.out.parts, tally{from: from, to: to, low: math.MaxInt})
		from = to
	}
	r.todo.push(event{at: 1, kind: arrive})
	for {
		e := r.todo.pop()
		if r.now = e.at; time.Duration(e.at) >= w.until {
			return r.out
		}
		for r.part < len(w.parts) && time.Duration(e.at) >= w.parts[r.part] {
			r.part++
		}
		switch e.kind {
		case arrive:
			r.arrive()
		case served:
			r.served(e.id)
		case back:
			r.back(e.id)
		case gone:
			r.gone(e)
		case giveUp:
			r.giveUp(e)
		}
	}
}

func (r *run) at() time.Duration { return time.Duration(r.now) }
func (r *run) tally() *tally     { return &r.out.parts[r.part] }

func (r *run) arrive() {
	rate := r.load * r.capacity
	if r.arrivals != nil {
		rate *= r.arrivals(r.at())
	}
	n := max(1, r.batch)
	r.todo.push(event{at: r.now + int64(r.random.ExpFloat64()*1e9*float64(n)/rate) + 1, kind: arrive})
	for range n {
		r.offer()
	}
}

func (r *run) offer() {
	t, g := r.tally(), r.random.IntN(len(r.doors))
	d := r.doors[g]
	limit := d.lim.Current()
	t.offered++
	t.low, t.high = min(t.low, limit), max(t.high, limit)
	d.offered++
	size := 1.0
	if r.mix != nil {
		size = r.mix(r.random, r.at())
	}
	var id int
	if n := len(r.free); n > 0 {
		id, r.free = r.free[n-1], r.free[:n-1]
	} else {
		id = len(r.requests)
		r.requests = append(r.requests, request{})
	}
	q := &r.requests[id]
	*q = request{gate: g, born: r.now, size: size, turn: q.turn + 1}
	switch {
	case d.inFlight < limit && 2*d.held <= max(limit, 2):
		r.grant(id)
	case r.queue && len(d.line) < d.room(r.now):
		q.waiting = true
		d.line = append(d.line, id)
		wait := 2 * int64(d.lim.BaseRTT())
		if r.patience > 0 {
			wait = min(wait, int64(r.patience))
		}
		r.todo.push(event{at: r.now + wait, kind: giveUp, id: id, turn: q.turn})
	default:
		t.refused++
		d.refused++
		r.free = append(r.free, id)
		return
	}
	patience := r.patience
	if r.hurried > 0 && r.random.Float64() < r.hurried {
		patience = r.hurry
	}
	if patience > 0 {
		r.todo.push(event{at: r.now + int64(patience), kind: gone, id: id, turn: q.turn})
	}
}

// room is what the automatic queue before the limit holds now: nobody, once it
// has stood for too long.
func (d *door) room(now int64) int {
	period := max(4*int64(d.lim.BaseRTT()), int64(100*time.Millisecond))
	if now < d.opens {
		d.opens = now + period
		return 0
	}
	if len(d.line) == 0 {
		d.since = now
	} else if now-d.since > period {
		d.opens = now + period
		return 0
	}
	return max(4, int(math.Ceil(2*math.Sqrt(float64(d.lim.Current())))))
}

func (r *run) grant(id int) {
	q := &r.requests[id]
	d := r.doors[q.gate]
	d.inFlight++
	q.start, q.inFlight, q.waiting = r.now, d.inFlight, false
	if r.sigma > 0 || r.busy < r.nworkers() {
		r.serve(id)
	} else {
		r.backlog = append(r.backlog, id)
	}
}

func (r *run) nworkers() int {
	if r.scale != nil {
		return r.scale(r.at())
	}
	return r.workers
}

func (r *run) serve(id int) {
	r.busy++
	q := &r.requests[id]
	inside := r.busy + len(r.backlog) - r.head
	mean := float64(r.service) * q.size
	if r.sigma > 0 {
		n := float64(inside)
		mean *= 1 + r.sigma*(n-1) + r.kappa*n*(n-1)
	} else {
		mean *= 1 + r.thrash*float64(max(0, inside-r.nworkers()))
	}
	if r.slow != nil {
		mean *= r.slow(r.at())
	}
	draw := r.random.ExpFloat64()
	if r.draw != nil {
		draw = r.draw(r.random)
	}
	r.todo.push(event{at: r.now + int64(mean*draw) + 1, kind: served, id: id})
}

func (r *run) served(id int) {
	r.busy--
	for r.head < len(r.backlog) && r.busy < r.nworkers() {
		next := r.backlog[r.head]
		r.head++
		if r.head > 4096 {
			r.backlog = append(r.backlog[:0], r.backlog[r.head:]...)
			r.head = 0
		}
		if q := &r.requests[next]; q.done { // cancelled while it waited
			r.free = append(r.free, next)
			continue
		}
		r.serve(next)
	}
	if r.requests[id].done {
		r.free = append(r.free, id)
		return
	}
	if r.delay != nil {
		if d := r.delay(r.at()); d > 0 {
			r.todo.push(event{at: r.now + int64(d), kind: back, id: id})
			return
		}
	}
	r.back(id)
}

func (r *run) back(id int) {
	q := &r.requests[id]
	if q.done {
		r.free = append(r.free, id)
		return
	}
	d, t := r.doors[q.gate], r.tally()
	if q.left {
		d.held--
		t.late++
	} else if time.Duration(r.now-q.born) <= r.objective {
		t.good++
		r.out.tenth[int(r.at()/(100*time.Millisecond))]++
	} else {
		t.late++
	}
	r.end(id, true)
	r.free = append(r.free, id)
}

// end gives the permit back.
func (r *run) end(id int, observe bool) {
	q := &r.requests[id]
	d := r.doors[q.gate]
	d.inFlight--
	q.done = true
	if observe {
		d.lim.Observe(r.now, time.Duration(max(1, r.now-q.start)), q.inFlight, false)
	}
	for len(d.line) > 0 && d.inFlight < d.lim.Current() {
		next := d.line[0]
		d.line = d.line[1:]
		r.tally().waited += float64(r.now - r.requests[next].born)
		r.grant(next)
	}
}

// gone is a caller whose patience has ended.
func (r *run) gone(e event) {
	q := &r.requests[e.id]
	if q.turn != e.turn || q.done || q.waiting {
		return
	}
	r.tally().left++
	d := r.doors[q.gate]
	if l, ok := d.lim.(interface {
		Left(now int64, age time.Duration, inFlight int)
	}); ok {
		l.Left(r.now, time.Duration(r.now-q.start), q.inFlight)
	}
	if r.cancel {
		r.tally().late++
		r.end(e.id, false)
		return
	}
	q.left = true
	d.held++
}

// giveUp is the end of a wait at the gate.
func (r *run) giveUp(e event) {
	q := &r.requests[e.id]
	if q.turn != e.turn || !q.waiting {
		return
	}
	d := r.doors[q.gate]
	for i, id := range d.line {
		if id == e.id {
			d.line = append(d.line[:i], d.line[i+1:]...)
			break
		}
	}
	d.refused++
	r.tally().refused++
	q.waiting, q.done = false, true
	r.free = append(r.free, e.id)
}
