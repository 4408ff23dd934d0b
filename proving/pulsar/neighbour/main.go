// Command neighbour measures what a throttled topic does to another topic of the
// same connection: with the broker's own throttling, and with the gate's.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/proving/pulsar"
)

const (
	rate     = 40 // messages per second of the slow topic
	duration = 5 * time.Second
)

// contest is one way to throttle.
type contest struct {
	name, address string
	unaware       bool // the client knows nothing of ThrottleProducer
	limit         bool // by the broker
}

// result is what two producers of one connection got.
type result struct {
	slow, fast int
	p50, p99   time.Duration
	err        error
}

func main() {
	var f pulsar.Facts
	broker, gate := os.Getenv("BROKER"), os.Getenv("GATE")
	contests := []contest{
		{name: "no limit", address: broker, unaware: true},
		{name: "the broker's topic rate", address: broker, unaware: true, limit: true},
		{name: "gate, hold", address: gate, unaware: true},
		{name: "gate, ThrottleProducer", address: gate},
	}
	results := make([]result, len(contests))
	for i, c := range contests {
		results[i] = c.run(i)
		r := results[i]
		f.Must(c.name, r.err)
		fmt.Printf("# %-24s slow %d, neighbour %d, its p50 %v, p99 %v\n", c.name, r.slow, r.fast, r.p50, r.p99)
	}
	frozen := results[1]
	for i, c := range contests[2:] {
		r := results[i+2]
		// The median decides: on a busy machine the p99 is the machine's.
		f.TellBrisk(fmt.Sprintf("a neighbour on the connection of a topic at its rate of %d/s: p50 %v, p99 %v with the broker's own limit, p50 %v, p99 %v with %s, p50 %v, p99 %v without a limit",
			rate, short(frozen.p50), short(frozen.p99), short(r.p50), short(r.p99), c.name, short(results[0].p50), short(results[0].p99)), 3*r.p50 < frozen.p50)
		f.TellBrisk(fmt.Sprintf("%s: the slow topic gets its rate: %.0f/s", c.name, float64(r.slow)/duration.Seconds()),
			within(r.slow, rate*int(duration.Seconds())), r.slow)
	}
	f.End()
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// within allows for the first burst, and for a busy machine.
func within(got, want int) bool { return got > want*7/10 && got < want*13/10+rate }

func (c contest) run(n int) (r result) {
	ctx := context.Background()
	slowName, fastName := fmt.Sprintf("slow-%d", n), fmt.Sprintf("neighbour-%d", n)
	client, err := pulsarproducer.Connect(ctx, c.address, pulsarproducer.Options{Unaware: c.unaware})
	if err != nil {
		return result{err: err}
	}
	defer client.Close()
	slow, err := client.NewProducer(ctx, slowName, pulsarproducer.ProducerOptions{})
	if err != nil {
		return result{err: err}
	}
	fast, err := client.NewProducer(ctx, fastName, pulsarproducer.ProducerOptions{})
	if err != nil {
		return result{err: err}
	}
	if c.limit {
		rule := map[string]int{"publishThrottlingRateInMsg": rate, "publishThrottlingRateInByte": 100_000_000}
		if err := pulsar.Admin(ctx, http.MethodPost, "persistent/public/default/"+slowName+"/publishRate", rule); err != nil {
			return result{err: err}
		}
		time.Sleep(2 * time.Second) // until the policy has come through its system topic
	}
	for range 50 { // both are warm
		if err := fast.Send(ctx, make([]byte, 100)); err != nil {
			return result{err: err}
		}
	}
	return c.produce(ctx, slow, fast)
}

// produce has both send their next message when the receipt of the last has come.
func (c contest) produce(ctx context.Context, slow, fast *pulsarproducer.Producer) (r result) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if slow.Send(context.WithoutCancel(ctx), make([]byte, 100)) == nil {
				r.slow++
			}
		}
	})
	var waits []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		if err := fast.Send(context.WithoutCancel(ctx), make([]byte, 100)); err != nil {
			r.err = err
			break
		}
		waits = append(waits, time.Since(began))
	}
	wg.Wait()
	slices.Sort(waits)
	r.fast, r.p50, r.p99 = len(waits), waits[len(waits)/2], waits[len(waits)*99/100]
	return r
}
