package fleet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/limiter"
)

// tick is the resolution of a simulation.
const tick = 5 * time.Millisecond

// world is a group in virtual time: gates with a bucket each, one quota, and a
// Redis whose clock is set.
type world struct {
	t      *testing.T
	redis  *miniredis.Miniredis
	now    int64         // of the gates, monotonic
	wall   time.Time     // of Redis
	skew   time.Duration // by which its clock was stepped
	seed   uint64
	rand   *rand.Rand
	rate   limiter.Rate
	gates  []*simGate
	opts   fleet.Settings
	silent bool // Redis answers nobody
}

// simGate is one gate and the load on it.
type simGate struct {
	*fleet.Sim
	bucket   *limiter.Bucket
	load     float64 // requests per second
	cost     float64
	dead     bool
	cut      bool // cannot reach Redis
	deaf     bool // its calls arrive, the answers do not
	clock    int64
	admitted float64
	offered  float64
}

func newWorld(t *testing.T, seed uint64, rate limiter.Rate, n int) *world {
	t.Helper()
	w := &world{
		t: t, redis: miniredis.RunT(t), now: int64(time.Hour), wall: time.Unix(1_800_000_000, 0),
		seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), rate: rate,
		opts: fleet.Settings{Gates: n, Lease: 3 * time.Second},
	}
	w.redis.SetTime(w.wall)
	for range n {
		w.join()
	}
	return w
}

// join adds a gate.
func (w *world) join() *simGate {
	w.t.Helper()
	r := w.rate
	r.Sharers, r.Sharing = w.opts.Gates, &limiter.Sharing{}
	g := &simGate{bucket: limiter.NewBucket(r, w.now), cost: 1}
	sim, err := fleet.NewSim(w.now, fmt.Sprintf("gate%d", len(w.gates)), w.opts, func(yield func(string, string, *limiter.Bucket) bool) {
		yield("orders", "orders", g.bucket)
	}, &fleet.Redis{Addresses: []string{w.redis.Addr()}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(sim.Close)
	sim.Share(r.Sharing)
	sim.Tell(w.now, true, fleet.Setting{Name: "orders", PerSecond: g.bucket.Rate().PerSecond, Burst: g.bucket.Burst()})
	sim.Throw(rand.New(rand.NewPCG(w.seed, uint64(len(w.gates))+2)).Float64)
	g.Sim = sim
	w.gates = append(w.gates, g)
	return g
}

// run plays the world for a time and returns the tokens admitted in each second.
func (w *world) run(d time.Duration) []float64 {
	w.t.Helper()
	var seconds []float64
	var sum float64
	for i := range int(d / tick) {
		w.now += int64(tick)
		w.wall = w.wall.Add(tick)
		w.redis.SetTime(w.wall.Add(w.skew))
		for _, at := range w.rand.Perm(len(w.gates)) {
			g := w.gates[at]
			if g.dead {
				continue
			}
			before := g.admitted
			g.arrive(w.now+g.clock, w.poisson(g.load*tick.Seconds()))
			sum += g.admitted - before
			g.Step(w.now+g.clock, !g.cut && !w.silent, !g.deaf)
		}
		if (i+1)%int(time.Second/tick) == 0 {
			seconds, sum = append(seconds, sum), 0
		}
	}
	return seconds
}

// arrive offers n requests.
func (g *simGate) arrive(now int64, n int) {
	due := limiter.Bill{{Bucket: g.bucket, Tokens: g.cost}}
	for range n {
		g.offered += g.cost
		if _, _, refused := due.Pay(now, limiter.NoWait); refused == nil {
			g.admitted += g.cost
		} else {
			g.bucket.Miss(g.cost)
		}
	}
}

func (w *world) poisson(mean float64) int {
	limit, p, k := math.Exp(-mean), 1.0, 0
	for {
		p *= w.rand.Float64()
		if p <= limit {
			return k
		}
		k++
	}
}

// spread sets the load of all gates, an equal part each.
func (w *world) spread(load float64) {
	for _, g := range w.gates {
		g.load = load / float64(len(w.gates))
	}
}

// mean, least and most of a list.
func summary(list []float64) (mean, least, most float64) {
	least = math.Inf(1)
	for _, x := range list {
		mean += x / float64(len(list))
		least, most = min(least, x), max(most, x)
	}
	return mean, least, most
}
