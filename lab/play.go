package lab

import (
	"strconv"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// settle is how long a run goes on after its last arrival, so that what is on
// its way can end.
const settle = 5 * time.Second

// PlayOptions change how a run is played. The zero value is fine.
type PlayOptions struct {
	// Advance is told of every step of virtual time before it is made; see
	// [testing/synctest]: time.Sleep there makes the time package follow.
	Advance func(time.Duration)
	// Tracer hears every request of the gates; nil = nobody.
	Tracer limiter.Tracer
}

// Play plays one variant for one contender and seed. Equal arguments give equal
// results. s has exactly one variant; see [Scenario.Variant].
func Play(s *Scenario, c Contender, seed uint64, o PlayOptions) (*Result, error) {
	fault, err := clock.ParseFault(s.Clock)
	if err != nil {
		return nil, err
	}
	w := newWorld(seed)
	w.advance, w.fault, w.tracer = o.Advance, fault, o.Tracer
	g := &game{w: w, s: s, backend: newBackend(w, s.Backend), tally: newVirtualTally(s)}
	jitter := random(seed, 4)
	if g.policy, err = s.Clients.policy(jitter.Float64); err != nil {
		return nil, err
	}
	g.budget = g.policy.NewBudget()
	for range s.Gates {
		g.doors = append(g.doors, c.New(w))
	}
	g.schedule()
	// What is on its way when the arrivals end may end.
	w.run(time.Duration(s.For) + settle + time.Duration(max(s.Timeout, s.Clients.Deadline)))
	return g.result(c.Name, seed), nil
}

// game is one run.
type game struct {
	w       *World
	s       *Scenario
	backend *Backend
	doors   []Door
	policy  client.Policy
	budget  *client.Budget
	tally   *virtualTally

	load float64 // arrivals per second now
	slow float64 // factor on service times now
	keys []string

	capacity float64 // requests per second that a load of 1 means
	arrive   func(key string, noisy bool)
}

// schedule plans everything that is known beforehand.
func (g *game) schedule() {
	s := g.s
	g.slow = 1
	for _, h := range s.Health {
		g.w.At(int64(h.At), func() {
			g.slow = max(h.Slow, 0)
			if g.slow == 0 {
				g.slow = 1
			}
			g.backend.set(g.slow, time.Duration(h.Delay), h.Frozen)
		})
	}
	g.capacity, g.arrive = s.Backend.Capacity(), g.send
	g.plan()
	for _, b := range s.Bursts {
		g.burst(b)
	}
	if s.ReloadEvery > 0 {
		g.every(time.Duration(s.ReloadEvery), g.reload)
	}
	g.every(watchEvery, g.watch)
}

// plan plans the arrivals.
func (g *game) plan() {
	s, capacity := g.s, g.capacity
	for i := range s.Tenants.Count {
		g.keys = append(g.keys, "tenant-"+strconv.Itoa(i))
	}
	for i, step := range s.Load {
		until := s.For
		if i+1 < len(s.Load) {
			until = s.Load[i+1].At
		}
		rate := step.Load * capacity
		g.w.At(int64(step.At), func() {
			g.load = rate + s.Tenants.Noisy*capacity
			g.arrivals(rate, int64(until), g.key)
		})
	}
	if s.Tenants.Noisy > 0 {
		g.arrivals(s.Tenants.Noisy*capacity, int64(s.For), func() (string, bool) { return "noisy", true })
	}
}

// key draws the tenant of the next request.
func (g *game) key() (key string, noisy bool) {
	if len(g.keys) == 0 {
		return "", false
	}
	return g.keys[g.w.arrivals.IntN(len(g.keys))], false
}

// arrivals sends a Poisson stream until the given time.
func (g *game) arrivals(rate float64, until int64, key func() (string, bool)) {
	if rate <= 0 {
		return
	}
	var next func()
	next = func() {
		g.arrive(key())
		if at := g.w.now + int64(g.w.arrivals.ExpFloat64()/rate*1e9); at < until {
			g.w.At(at, next)
		}
	}
	if at := g.w.now + int64(g.w.arrivals.ExpFloat64()/rate*1e9); at < until {
		g.w.At(at, next)
	}
}

// burst plans requests that arrive at one instant.
func (g *game) burst(b Burst) {
	g.w.At(int64(b.At), func() {
		for range b.Requests {
			g.arrive(g.key())
		}
		if next := b.At + b.Every; b.Every > 0 && next < g.s.For {
			g.burst(Burst{At: next, Every: b.Every, Requests: b.Requests})
		}
	})
}

// every plays f again and again until the arrivals end.
func (g *game) every(d time.Duration, f func()) {
	g.w.After(d, func() {
		f()
		if g.w.now+int64(d) <= int64(g.s.For) {
			g.every(d, f)
		}
	})
}

// reload applies every gate's policy again.
func (g *game) reload() {
	for _, d := range g.doors {
		if r, ok := d.(interface{ Reload() }); ok {
			r.Reload()
		}
	}
}

// watch samples what is plotted over time.
func (g *game) watch() {
	limit := 0
	for _, d := range g.doors {
		limit += d.Limit()
	}
	g.tally.watch(g.w.now, limit, g.backend.Inside(), g.backend.QueueAge())
}

// spare reports that the backend could serve all that is offered now, so that a
// refusal is a false one.
func (g *game) spare() bool { return g.load*g.slow < g.s.Backend.Capacity() }

// flight is one request on its way, over all its attempts.
type flight struct {
	g        *game
	door     Door
	key      string
	noisy    bool
	tokens   float64 // that the gate charges
	work     float64 // for the backend, as a multiple of its mean
	born     int64   // virtual ns when it was due
	sent     int64   // virtual ns of the attempt in progress
	deadline int64   // virtual ns; 0 = none
	attempt  int     // number of the attempt in progress or awaited, from 1; done
	tries    int     // attempts made
	state    client.State
}

// send starts one request of unit cost.
func (g *game) send(key string, noisy bool) {
	g.launch(&flight{key: key, noisy: noisy, tokens: 1, work: 1})
}

// launch starts one request.
func (g *game) launch(f *flight) {
	f.g, f.born, f.attempt, f.state = g, g.w.now, 1, client.State{Kind: client.Read}
	f.door = g.doors[0]
	if len(g.doors) > 1 {
		f.door = g.doors[g.w.arrivals.IntN(len(g.doors))]
	}
	if d := g.s.Clients.Deadline; d > 0 {
		f.deadline = f.born + int64(d)
	}
	f.try()
}

// try makes one attempt.
func (f *flight) try() {
	g := f.g
	f.tries++
	f.sent = g.w.now
	patience := time.Duration(g.s.Timeout)
	if f.deadline > 0 {
		patience = min(patience, time.Duration(f.deadline-g.w.now))
	}
	g.tally.step(g.w.now).Attempts++
	n, held := f.attempt, End(nil)
	over := func() bool { return f.attempt != n }
	f.door.Enter(Request{Key: f.key, Cost: f.tokens, Patience: patience}, func(end End) {
		if over() {
			end(limiter.Ignored) // granted when nobody waited any more
			return
		}
		held = end
		ok := g.backend.Submit(f.work, func() {
			if !over() {
				end(limiter.Success)
				f.answered()
			}
		})
		if !ok {
			end(limiter.Dropped)
			f.failed(g.s.Clients.lost())
		}
	}, func(why Refusal) {
		if !over() {
			f.refused(why)
		}
	})
	if over() {
		return
	}
	g.w.After(patience, func() {
		if over() {
			return
		}
		if held != nil {
			held(limiter.Dropped)
		}
		f.failed(g.s.Clients.lost())
	})
}

// done is the attempt of a flight that has ended.
const done = -1

// answered ends the request.
func (f *flight) answered() {
	f.g.policy.Done(&f.state, f.g.budget)
	f.end(Answered)
}

// refused retries or ends the request.
func (f *flight) refused(why Refusal) {
	var doc *labels.Document
	if f.g.policy.MaxRetries > 0 && why != nil {
		d := why()
		doc = &d
	}
	failure := f.g.s.Clients.refused(doc)
	if !f.again(&failure) {
		f.end(Refused)
	}
}

// failed retries or ends the request.
func (f *flight) failed(failure client.Failure) {
	if !f.again(&failure) {
		f.end(Failed)
	}
}

// again asks the real policy whether to retry, and plans the retry.
func (f *flight) again(failure *client.Failure) bool {
	g := f.g
	left := client.NoDeadline
	if f.deadline > 0 {
		left = time.Duration(f.deadline - g.w.now)
	}
	d := g.policy.Next(&f.state, failure, left, g.budget)
	if !d.Retry {
		return false
	}
	f.attempt++ // what is still under way no longer counts
	g.w.After(d.Wait, f.try)
	return true
}

// end counts the request.
func (f *flight) end(v Verdict) {
	f.attempt = done
	g := f.g
	// Of a request that was sent again, the latency is that of the attempt that
	// counted: the waits before it are the client's own.
	g.tally.ended(&ending{
		born: f.born, latency: time.Duration(g.w.now - f.sent), tries: f.tries, noisy: f.noisy, spare: g.spare(), verdict: v,
	})
}
