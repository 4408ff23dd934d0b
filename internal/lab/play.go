package lab

import (
	"strconv"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
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
// results. s has exactly one variant; see [scenario.Scenario.Variant].
func Play(s *scenario.Scenario, c Contender, seed uint64, o PlayOptions) (*measure.Result, error) {
	fault, err := clock.ParseFault(s.Clock)
	if err != nil {
		return nil, err
	}
	w := newWorld(seed)
	w.advance, w.fault, w.tracer = o.Advance, fault, o.Tracer
	g := newGame(w, s, seed)
	jitter := random(seed, 4)
	if g.policy, err = s.Clients.ClientPolicy(jitter.Float64); err != nil {
		return nil, err
	}
	g.budget = g.policy.NewBudget()
	for range s.Gates {
		g.doors = append(g.doors, c.New(w))
	}
	g.schedule()
	// What is on its way when the arrivals end may end.
	w.run(time.Duration(s.For) + settle + s.LongestWait())
	return g.result(c.Name, seed), nil
}

// game is one run.
type run struct {
	w       *World
	s       *scenario.Scenario
	seed    uint64
	backend *Backend
	doors   []Door
	policy  client.Policy
	budget  *client.Budget
	tally   *virtualTally

	patience func() time.Duration // draws that of the next client

	main, noisy *stream
	keys        []string

	capacity float64 // requests per second that a load of 1 means
	arrive   func(key string, noisy bool)
}

// newGame returns a run in which nothing is planned yet.
func newGame(w *World, s *scenario.Scenario, seed uint64) *run {
	g := &run{
		w: w, s: s, seed: seed, backend: newBackend(w, s.Backend), tally: newVirtualTally(s), capacity: s.Backend.Capacity(),
		patience: s.Clients.Patience.Drawn(random(seed, 6), time.Duration(s.Timeout)),
	}
	g.arrive = g.send
	return g
}

// schedule plans everything that is known beforehand.
func (g *run) schedule() {
	s := g.s
	for _, h := range s.HealthSteps() {
		g.w.At(int64(h.At), func() { g.backend.set(h.State(&s.Backend)) })
	}
	g.plan()
	if s.ReloadEvery > 0 {
		g.every(time.Duration(s.ReloadEvery), g.reload)
	}
	g.every(watchEvery, g.watch)
}

// plan plans the arrivals.
func (g *run) plan() {
	s := g.s
	for i := range s.Tenants.Count {
		g.keys = append(g.keys, "tenant-"+strconv.Itoa(i))
	}
	g.main = &stream{g: g, key: g.key, batch: s.Arrivals.Batch}
	g.noisy = &stream{g: g, key: func() (string, bool) { return "noisy", true }}
	for _, step := range s.LoadSteps() {
		g.w.At(int64(step.At), func() { g.main.set(step.Load * g.capacity) })
	}
	g.w.At(0, func() { g.noisy.set(s.Tenants.Noisy * g.capacity) })
	g.w.At(int64(s.For), func() {
		g.main.set(0)
		g.noisy.set(0)
	})
	if s.Arrivals.High > 0 {
		g.swing(false)
	}
	for _, b := range s.Bursts {
		g.burst(b)
	}
	g.callers()
}

// key draws the tenant of the next request.
func (g *run) key() (key string, noisy bool) {
	if len(g.keys) == 0 {
		return "", false
	}
	return g.keys[g.w.arrivals.IntN(len(g.keys))], false
}

// every plays f again and again until the arrivals end.
func (g *run) every(d time.Duration, f func()) {
	g.w.After(d, func() {
		f()
		if g.w.now+int64(d) <= int64(g.s.For) {
			g.every(d, f)
		}
	})
}

// reload applies every gate's policy again.
func (g *run) reload() {
	for _, d := range g.doors {
		if r, ok := d.(interface{ Reload() }); ok {
			r.Reload()
		}
	}
}

// watch samples what is plotted over time.
func (g *run) watch() {
	limit := 0
	for _, d := range g.doors {
		limit += d.Limit()
	}
	g.tally.watch(g.w.now, limit, g.backend.Inside(), g.backend.QueueAge())
}

// spare reports that the backend could serve all that is offered now, so that a
// refusal is a false one. Callers of a pool offer what they would if each were
// served at once.
func (g *run) spare() bool {
	h := &g.backend.now
	alone := time.Duration(float64(g.s.Backend.Service.MeanAt(h.Share))*h.Speed) + h.Delay
	return g.main.offered()+g.noisy.offered()+g.s.Callers.Asking(alone) < g.s.Backend.CapacityIn(*h)
}
