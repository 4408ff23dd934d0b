package mongobackend_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/limiter"
)

// outcome is what closed-loop clients saw.
type outcome struct {
	good    []time.Duration
	failed  int
	elapsed time.Duration
}

func (o *outcome) goodput() float64 { return float64(len(o.good)) / o.elapsed.Seconds() }

func (o *outcome) quantile(q float64) time.Duration {
	if len(o.good) == 0 {
		return 0
	}
	return o.good[int(q*float64(len(o.good)-1))]
}

func (o *outcome) failures() float64 {
	return float64(o.failed) / float64(max(o.failed+len(o.good), 1))
}

// closedLoop runs n clients that find in a loop for d.
func closedLoop(t *testing.T, addr string, n int, d time.Duration) *outcome {
	t.Helper()
	return closedLoopIn(t, addr, "shop", n, d, 0)
}

// closedLoopIn is closedLoop in a database of its own, with a deadline of each
// operation; 0 = none.
func closedLoopIn(t *testing.T, addr, database string, n int, d, deadline time.Duration) *outcome {
	t.Helper()
	c := connect(t, addr, options.Client().SetMaxPoolSize(uint64(n)))
	coll := c.Database(database).Collection("orders")
	var mu sync.Mutex
	o := &outcome{}
	begin := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for time.Since(begin) < d {
				at := time.Now()
				ctx, cancel := patience(deadline)
				err := coll.FindOne(ctx, bson.D{}).Err()
				cancel()
				if time.Since(begin) > d {
					return // ends outside the span
				}
				mu.Lock()
				if err == nil || errors.Is(err, mongo.ErrNoDocuments) {
					o.good = append(o.good, time.Since(at))
				} else {
					o.failed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	o.elapsed = d
	slices.Sort(o.good)
	return o
}

// patience returns a context with a deadline; 0 = none.
func patience(deadline time.Duration) (context.Context, context.CancelFunc) {
	if deadline > 0 {
		return context.WithTimeout(context.Background(), deadline)
	}
	return context.Background(), func() {}
}

// What the base of the backoff does to real drivers: few clients at a short
// burst use the rate, a deadline makes no more operations fail than without
// hints, and a tenant does not wait for another's storm.
//
//	ADMITD_BENCH=1 go test -run Hints -v .
func TestHints(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("set ADMITD_BENCH=1 to measure")
	}
	backend := startModel(t, modelmongo.New(64, 2*time.Millisecond))
	const span = 15 * time.Second
	measure := func(name string, p limiter.Policy, clients int, deadline time.Duration, hints bool) *outcome {
		_, addr := startGate(t, backend, &p, mongogate.Options{Refusal: mongogate.Refusal{NoHints: !hints, WaitAnnounced: -1}})
		o := closedLoopIn(t, addr, "shop", clients, span, deadline)
		t.Logf("%-40s hints %-5v %5.0f/s good, p50 %v, p99 %v, %.2f %% failed", name, hints, o.goodput(), o.quantile(0.5), o.quantile(0.99), 100*o.failures())
		return o
	}
	short := limiter.Policy{Rate: limiter.Rate{PerSecond: 60, BurstSeconds: 0.1}}
	measure("60/s, burst 0.1 s, 4 clients", short, 4, 0, false)
	if o := measure("60/s, burst 0.1 s, 4 clients", short, 4, 0, true); o.goodput() < 52 || o.failures() > 0.05 {
		t.Errorf("%.0f/s of 60/s, %.1f %% failed", o.goodput(), 100*o.failures())
	}
	long := limiter.Policy{Rate: limiter.Rate{PerSecond: 200, BurstSeconds: 1}}
	for _, deadline := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second} {
		name := "200/s, 32 clients, deadline " + deadline.String()
		bare := measure(name, long, 32, deadline, false)
		if o := measure(name, long, 32, deadline, true); o.failures() > bare.failures()+0.03 || o.goodput() < 0.9*bare.goodput() {
			t.Errorf("%s: %.0f/s good, %.1f %% failed; without hints %.0f/s and %.1f %%", name, o.goodput(), 100*o.failures(), bare.goodput(), 100*bare.failures())
		}
	}
}

// One database storms a rate of its own; another, within its rate, does not
// notice.
func TestHintsOfACalmTenant(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("set ADMITD_BENCH=1 to measure")
	}
	backend := startModel(t, modelmongo.New(64, 2*time.Millisecond))
	_, addr := startGate(t, backend, &limiter.Policy{Default: limiter.PartitionPolicy{
		Rate: limiter.Rate{PerSecond: 200, BurstSeconds: 0.1},
	}}, mongogate.Options{PartitionBy: []string{"database"}})
	const span = 12 * time.Second
	var wg sync.WaitGroup
	var storm *outcome
	wg.Go(func() { storm = closedLoopIn(t, addr, "storm", 128, span, 0) })
	calm := closedLoopIn(t, addr, "calm", 4, span, 0)
	wg.Wait()
	for name, o := range map[string]*outcome{"storm": storm, "calm": calm} {
		t.Logf("%-5s %5.0f/s good, p50 %v, p99 %v, longest %v, %.2f %% failed", name, o.goodput(), o.quantile(0.5), o.quantile(0.99), o.quantile(1), 100*o.failures())
	}
	if calm.quantile(1) > 2*time.Second || calm.failures() > 0.02 {
		t.Errorf("the calm tenant waits up to %v and %.1f %% failed", calm.quantile(1), 100*calm.failures())
	}
}

// 64 closed-loop clients on a backend of 400 commands per second: with the gate
// the median falls at least fivefold, the goodput stays, and at most 2 % of the
// operations fail after the driver's own retries.
//
//	ADMITD_BENCH=1 go test -run Overload -v .
func TestOverload(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("set ADMITD_BENCH=1 to measure")
	}
	backend := startModel(t, modelmongo.New(8, 20*time.Millisecond))
	gate := func(o mongogate.Options) string {
		_, addr := startGate(t, backend, &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return fixed(10) }, QueueDepth: 2, MaxWait: 200 * time.Millisecond,
		}}, o)
		return addr
	}
	const span = 20 * time.Second
	direct := closedLoop(t, backend, 64, span)
	gated := closedLoop(t, gate(mongogate.Options{}), 64, span)
	for name, o := range map[string]*outcome{"direct": direct, "gate": gated} {
		t.Logf("%-7s %5.0f/s good, p50 %v, p99 %v, %.2f %% failed", name, o.goodput(), o.quantile(0.5), o.quantile(0.99), 100*o.failures())
	}
	if r := float64(direct.quantile(0.5)) / float64(gated.quantile(0.5)); r < 5 {
		t.Errorf("the median fell %.1f-fold, want at least 5", r)
	}
	if r := gated.goodput() / direct.goodput(); r < 0.95 {
		t.Errorf("goodput is %.2f of direct, want at least 0.95", r)
	}
	if f := gated.failures(); f > 0.02 {
		t.Errorf("%.1f %% failed, want at most 2", 100*f)
	}
}

// startModel runs a model server and returns its address.
func startModel(t *testing.T, s *modelmongo.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	return l.Addr().String()
}
