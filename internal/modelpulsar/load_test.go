package modelpulsar_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/client/pulsarproducer"
)

// tenant is an open-loop publisher: it sends at its rate whatever becomes of what
// it has sent.
type tenant struct {
	Topic string
	Rate  float64 // messages per second, > 0
	// Size of a message in bytes; 0 = 100.
	Size int
	// Timeout of a message; 0 = 1 s.
	Timeout time.Duration
	// MaxPending messages without a receipt; 0 = 1000.
	MaxPending int
}

// outcome is what became of a tenant's messages.
type outcome struct {
	Topic     string
	Offered   int // messages sent or refused by the client
	Published int // receipts in time
	Throttled int // failed early, because the producer was throttled
	TimedOut  int
	Other     int // the client's queue was full, or the connection lost
	// P50 and P99 of the time from offering a message to its receipt, of those
	// published; 0 when there are none.
	P50, P99 time.Duration
}

// offerAll lets the tenants publish through one client, as applications that share
// a connection do, until ctx ends, and waits for what is on its way.
func offerAll(ctx context.Context, c *pulsarproducer.Client, tenants []tenant) ([]outcome, error) {
	out := make([]outcome, len(tenants))
	producers := make([]*pulsarproducer.Producer, len(tenants))
	for i := range tenants {
		t := &tenants[i]
		p, err := c.NewProducer(ctx, t.Topic, pulsarproducer.ProducerOptions{
			SendTimeout: t.timeout(), MaxPending: t.MaxPending,
		})
		if err != nil {
			return nil, err
		}
		producers[i] = p
	}
	var wg sync.WaitGroup
	for i := range tenants {
		wg.Go(func() { out[i] = tenants[i].offer(ctx, producers[i]) })
	}
	wg.Wait()
	return out, nil
}

// timeout returns the Timeout with its default.
func (t *tenant) timeout() time.Duration {
	if t.Timeout <= 0 {
		return time.Second
	}
	return t.Timeout
}

// offer sends at the tenant's rate until ctx ends.
func (t *tenant) offer(ctx context.Context, p *pulsarproducer.Producer) outcome {
	size := t.Size
	if size <= 0 {
		size = 100
	}
	payload := make([]byte, size)
	r := recorder{out: outcome{Topic: t.Topic}}
	send := context.WithoutCancel(ctx)
	start := time.Now()
	tick := time.NewTicker(max(time.Duration(float64(time.Second)/t.Rate), time.Millisecond))
	defer tick.Stop()
	for ctx.Err() == nil {
		for due := int(time.Since(start).Seconds() * t.Rate); r.out.Offered < due; r.out.Offered++ {
			begin := time.Now()
			r.pending.Add(1)
			p.SendAsync(send, payload, func(err error) { r.end(begin, err) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	r.pending.Wait()
	return r.result()
}

// recorder collects what becomes of messages.
type recorder struct {
	pending sync.WaitGroup
	out     outcome // Offered belongs to the sender; the rest is guarded by mu

	mu    sync.Mutex // guards the rest of out and waits; never held across a wait
	waits []time.Duration
}

// end records the end of one message.
func (r *recorder) end(begin time.Time, err error) {
	defer r.pending.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	var throttled *pulsarproducer.ProducerThrottledError
	switch {
	case err == nil:
		r.out.Published++
		r.waits = append(r.waits, time.Since(begin))
	case errors.As(err, &throttled):
		r.out.Throttled++
	case errors.Is(err, pulsarproducer.ErrTimeout):
		r.out.TimedOut++
	default:
		r.out.Other++
	}
}

// result returns the outcome, once every message has ended.
func (r *recorder) result() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.waits)
	if n := len(r.waits); n > 0 {
		r.out.P50, r.out.P99 = r.waits[n/2], r.waits[n*99/100]
	}
	return r.out
}
