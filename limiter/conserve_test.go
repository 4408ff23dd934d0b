package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
)

// quickClock runs a thousand times as fast as the process's, so that partitions
// are evicted while a test looks on.
type quickClock struct{ start time.Time }

func (c quickClock) Now() int64  { return 1000 * int64(time.Since(c.start)) }
func (quickClock) Trusted() bool { return true }
func (quickClock) Epoch() uint32 { return 0 }

// holders counts the permits that the test holds, independently of the gate.
type holders struct {
	total, gold        int64 // the bounds
	inside, insideGold atomic.Int64
	worst, worstGold   atomic.Int64
	passed, waited     atomic.Int64
}

func (c *holders) enter(p *limiter.Permit) {
	c.passed.Add(1)
	raise(&c.worst, c.inside.Add(1))
	if p.Partition() == "gold" {
		raise(&c.worstGold, c.insideGold.Add(1))
	}
}

// leave is called before the permit ends.
func (c *holders) leave(p *limiter.Permit) {
	c.inside.Add(-1)
	if p.Partition() == "gold" {
		c.insideGold.Add(-1)
	}
}

func raise(most *atomic.Int64, n int64) {
	for w := most.Load(); n > w && !most.CompareAndSwap(w, n); w = most.Load() {
	}
}

// Permits are conserved on every path: callers wait, give up, leave, end twice
// and panic, while policies are swapped and partitions evicted. What all hold
// never passes the total, and what a partition holds never its limit. Each
// worker holds several permits while others ask, since one that gives back at
// once never meets the total: a gate that admitted a thousand too many passed
// this test once. The operations are millions, fewer under -short, and as many as
// ADMITD_SOAK says where it is set (make soak).
func TestPermitsAreConserved(t *testing.T) {
	const workers = 64
	perWorker := 2_000_000 / workers
	if testing.Short() || raceEnabled {
		perWorker /= 20
	}
	if soak, err := strconv.Atoi(os.Getenv("ADMITD_SOAK")); err == nil {
		perWorker = soak / workers
	}
	c := &holders{total: 40, gold: 10}
	policies := [2]*limiter.Policy{}
	for i := range policies {
		policies[i] = &limiter.Policy{
			Total: int(c.total), MaxPartitions: 8,
			Default: limiter.PartitionPolicy{NewLimit: newFixed(10), Signature: "same", QueueDepth: 4, MaxWait: time.Second},
			Named:   []limiter.PartitionPolicy{{Name: "gold", NewLimit: newFixed(int(c.gold)), Signature: "gold", QueueDepth: 4}},
		}
	}
	g := limiter.New("g", policies[0], limiter.Options{Clock: quickClock{time.Now()}})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			var held []*limiter.Permit
			for i := range perWorker {
				held = churn(g, c, rng, held)
				if w == 0 && i%500 == 0 {
					g.Apply(policies[i/500%2])
				}
			}
			for _, p := range held {
				c.leave(p)
				p.End(limiter.Success)
			}
		})
	}
	wg.Wait()
	if worst := c.worst.Load(); worst > c.total || worst < c.total/2 {
		t.Errorf("%d permits were held at once; want the total of %d, nearly met and never passed", worst, c.total)
	}
	if worst := c.worstGold.Load(); worst > c.gold {
		t.Errorf("%d permits of gold were held at once; its limit is %d", worst, c.gold)
	}
	s := g.Status()
	if s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("after all ended: %d in flight, %d queued", s.InFlight, s.Queued)
	}
	for _, p := range s.Partitions {
		if p.InFlight != 0 || p.Queued != 0 || p.Abandoned != 0 {
			t.Errorf("partition %s: %d in flight, %d queued, %d abandoned", p.Name, p.InFlight, p.Queued, p.Abandoned)
		}
	}
	var admitted, abandoned, wasted uint64
	for _, l := range s.Labels {
		admitted, abandoned, wasted = admitted+l.Counts.Admitted, abandoned+l.Counts.Abandoned, wasted+l.Counts.Wasted
	}
	if admitted < uint64(c.passed.Load()) || abandoned == 0 || abandoned != wasted {
		t.Errorf("counted %d admitted of %d that passed, %d abandoned, %d wasted", admitted, c.passed.Load(), abandoned, wasted)
	}
	if c.waited.Load() == 0 {
		t.Error("nobody was served after a wait")
	}
}

// churn is one operation of a worker that holds some permits, and returns what
// it holds then.
func churn(g *limiter.Gate, c *holders, rng *rand.Rand, held []*limiter.Permit) []*limiter.Permit {
	if n := len(held); n > 0 && (n > 3 || rng.IntN(2) == 0) {
		letGo(c, rng, held[n-1])
		return held[:n-1]
	}
	req := limiter.Request{Key: fmt.Sprint("k", rng.IntN(100)), MaxWait: -1}
	if rng.IntN(3) == 0 {
		req.Key = "gold"
	}
	if rng.IntN(4) == 0 {
		req.MaxWait = 0
	}
	permit, ticket, err := g.Offer(g.Now(), req)
	if ticket != nil {
		if permit, err = sit(g, rng, ticket); err == nil {
			c.waited.Add(1)
		}
	}
	if err != nil {
		return held
	}
	c.enter(&permit)
	return append(held, &permit)
}

// letGo ends a permit in one of the ways in which handlers do.
func letGo(c *holders, rng *rand.Rand, p *limiter.Permit) {
	defer func() { _ = recover() }()
	defer p.End(limiter.Dropped)
	if rng.IntN(5) == 0 {
		p.Leave()
	}
	runtime.Gosched()
	c.leave(p)
	switch rng.IntN(3) {
	case 0:
		panic("the handler broke")
	case 1:
		p.End(limiter.Success)
		p.Leave()
		p.End(limiter.Ignored)
	}
}

// sit waits for a while, and then gives up in one way or the other.
func sit(g *limiter.Gate, rng *rand.Rand, ticket *limiter.Ticket) (limiter.Permit, error) {
	for range rng.IntN(20) {
		if p, _, done, err := ticket.Step(g.Now()); done {
			return p, err
		}
		runtime.Gosched()
	}
	if rng.IntN(2) == 0 {
		ticket.Abandon()
		return limiter.Permit{}, limiter.ErrRejected
	}
	p, _, _, err := ticket.Step(1 << 62)
	return p, err
}
