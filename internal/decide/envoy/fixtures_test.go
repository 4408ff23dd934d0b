package envoy_test

import (
	"context"
	"net"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/internal/decide/envoy"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// daemon stands in for the program: one ingress with one gate.
type daemon struct {
	gate *limiter.Gate
	form labels.HTTPForm
	last chan decide.Ask // the newest ask
}

func newDaemon(p *limiter.Policy) *daemon {
	return &daemon{
		gate: limiter.New("orders", p, limiter.Options{}), last: make(chan decide.Ask, 100),
		form: labels.HTTPForm{PerSecond: p.Rate.PerSecond, BurstSeconds: p.Rate.BurstSeconds},
	}
}

func (d *daemon) Admit(ctx context.Context, a *decide.Ask) (limiter.Permit, error) {
	select {
	case d.last <- *a:
	default:
	}
	if a.Cost == 0 {
		a.Cost = 1
	}
	if a.Ingress != "orders" {
		return limiter.Permit{}, decide.ErrUnknownIngress
	}
	return d.gate.Admit(ctx, limiter.Request{Key: a.Partition, Cost: a.Cost, MaxWait: a.MaxWait})
}

func (d *daemon) Form(string, string) labels.HTTPForm { return d.form }

func (d *daemon) Quota(ingress, partition string) (envoy.Quota, bool) {
	own, whole, blocked := d.gate.Rates(partition)
	q := envoy.Quota{Rate: own, Blocked: blocked}
	if own.PerSecond == 0 {
		q.Rate, q.Whole = whole, true
	}
	return q, ingress == "orders"
}

// dial serves d on a loopback port until the test ends and connects to it.
func dial(t *testing.T, d *daemon, o decide.Options) *grpc.ClientConn {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	decider := decide.NewDecider(d, 3)
	services := envoy.New(decider, envoy.Options{Quotas: d, Ready: o.Ready})
	o.GRPC, o.Stopping = services, services.Close
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- decide.NewServer(decider, o).Serve(ctx, ln) }()
	c, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		decider.Close()
	})
	return c
}

// rates is a policy of one token bucket.
func rates(perSecond, burstSeconds float64) *limiter.Policy {
	return &limiter.Policy{Rate: limiter.Rate{PerSecond: perSecond, BurstSeconds: burstSeconds}}
}

// one is a policy of one permit.
func one() *limiter.Policy {
	return &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return constant(1) }}}
}

// constant is a limit that learns nothing.
type constant int

func (c constant) Current() int                          { return int(c) }
func (constant) Observe(int64, time.Duration, int, bool) {}

// descriptor builds one from keys and values in turn.
func descriptor(pairs ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// hits gives a descriptor an addend of its own.
func hits(n uint64, d *commonv3.RateLimitDescriptor) *commonv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

// ending makes a descriptor one of a stream that is done.
func ending(d *commonv3.RateLimitDescriptor) *commonv3.RateLimitDescriptor {
	d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(1), true
	return d
}
