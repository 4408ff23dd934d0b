package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/modelpulsar"
)

// The queue's demo: what the noisy producer may publish and what it tries to,
// and how often its neighbour publishes, per second.
const (
	demoNoisyRate    = 200
	demoNoisyLoad    = 600
	demoNeighbour    = 100
	demoNoisyTopic   = "persistent://public/default/noisy"
	demoQuietTopic   = "persistent://public/default/neighbour"
	demoQueueTimeout = 2 * time.Second
	demoPending      = 200 // messages that the noisy client keeps without a receipt
)

// queueLeg is one way of slowing a producer down, and what it cost.
type queueLeg struct {
	name, method string
	first        bool
	unaware      bool // the client does not know ThrottleProducer

	neighbour        *hdrhistogram.Histogram // microseconds
	quiet            int
	noisy, throttled atomic.Int64
}

// demoQueue plays the demo of the queue gate: two producers share a connection,
// one is over its rate.
func demoQueue(ctx context.Context, s streams, o Options) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo broker: %w", err)
	}
	broker := modelpulsar.New(modelpulsar.Options{Workers: demoWorkers})
	go func() { _ = broker.Serve(ctx, ln) }() // ends with ctx
	fmt.Fprintf(s.out, "two producers on one connection: one may publish %d messages/s and sends %d, its neighbour sends %d\n\n",
		demoNoisyRate, demoNoisyLoad, demoNeighbour)
	legs := []*queueLeg{
		{name: "pause the connection", method: "pause", unaware: true, first: true},
		{name: "hold the producer", method: "hold", unaware: true},
		{name: "ThrottleProducer", method: "auto"},
	}
	for _, l := range legs {
		l.neighbour = hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
		fmt.Fprintf(s.out, "%s …\n", l.name)
		if err := l.play(ctx, s, o, ln.Addr().String()); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\n\tneighbour p50\tp99\tsent/s\tnoisy published/s\ttold to wait\t")
	for _, l := range legs {
		seconds := (o.For / 3).Seconds()
		fmt.Fprintf(w, "%s\t%v\t%v\t%.0f\t%.0f\t%d\t\n", l.name,
			time.Duration(l.neighbour.ValueAtQuantile(50))*time.Microsecond, time.Duration(l.neighbour.ValueAtQuantile(99))*time.Microsecond,
			float64(l.quiet)/seconds, float64(l.noisy.Load())/seconds, l.throttled.Load())
	}
	return w.Flush()
}

// play runs one part.
func (l *queueLeg) play(ctx context.Context, s streams, o Options, broker string) error {
	d, stop, err := startDaemon(ctx, s, o, fmt.Sprintf(`"backend": %q, "partitions": {"by": "topic"}, "pulsar": {"method": %q,
		"topics": [{"name": "noisy", "match": %q, "messages": %d, "burstSeconds": 0.1}]}`, broker, l.method, demoNoisyTopic, demoNoisyRate))
	if err != nil {
		return err
	}
	defer stop()
	if l.first {
		tellPage(s, d)
	}
	c, err := pulsarproducer.Connect(ctx, d.Address("demo").String(), pulsarproducer.Options{Unaware: l.unaware})
	if err != nil {
		return err
	}
	defer c.Close()
	noisy, err := c.NewProducer(ctx, demoNoisyTopic, pulsarproducer.ProducerOptions{MaxPending: demoPending})
	if err != nil {
		return err
	}
	neighbour, err := c.NewProducer(ctx, demoQuietTopic, pulsarproducer.ProducerOptions{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.For/3)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.beNoisy(ctx, noisy) })
	l.beQuiet(ctx, neighbour)
	wg.Wait()
	return nil
}

// beNoisy publishes more than it may.
func (l *queueLeg) beNoisy(ctx context.Context, p *pulsarproducer.Producer) {
	payload := make([]byte, 200)
	every(ctx, time.Second/demoNoisyLoad, func() {
		sctx, cancel := context.WithTimeout(ctx, demoQueueTimeout)
		p.SendAsync(sctx, payload, func(err error) {
			cancel()
			var throttled *pulsarproducer.ProducerThrottledError
			switch {
			case err == nil:
				l.noisy.Add(1)
			case errors.As(err, &throttled):
				l.throttled.Add(1)
			}
		})
	})
}

// beQuiet publishes little and measures.
func (l *queueLeg) beQuiet(ctx context.Context, p *pulsarproducer.Producer) {
	payload := make([]byte, 200)
	every(ctx, time.Second/demoNeighbour, func() {
		start := time.Now()
		if p.Send(ctx, payload) != nil {
			return // the part is over
		}
		l.quiet++
		_ = l.neighbour.RecordValue(max(time.Since(start).Microseconds(), 1)) // cut at the histogram's bound
	})
}

// every calls f at intervals until ctx is done.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}
