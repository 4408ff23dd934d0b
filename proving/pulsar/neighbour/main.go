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
	client        pulsarproducer.Options
	limit         bool // by the broker
	freezes       bool // the whole connection
}

// result is what two producers of one connection got.
type result struct {
	slow, fast int
	p50, p99   time.Duration
	err        error
}

func main() {
	var f pulsar.Facts
	broker, gate, pausing := os.Getenv("BROKER"), os.Getenv("GATE"), os.Getenv("PAUSING")
	unaware := pulsarproducer.Options{Unaware: true}
	contests := []contest{
		{name: "nobody", address: broker, client: unaware},
		{name: "the broker, by its topic publish rate", address: broker, client: unaware, limit: true, freezes: true},
		{name: "the gate, method pause", address: pausing, client: unaware, freezes: true},
		{name: "the gate, hold", address: gate, client: unaware},
		{name: "the gate, ThrottleProducer", address: gate},
	}
	results := make([]result, len(contests))
	for i, c := range contests {
		results[i] = c.run(i)
		r := results[i]
		f.Must(c.name, r.err)
		fmt.Printf("# | %s | %d | %d | %v | %v |\n", c.name, r.slow, r.fast, short(r.p50), short(r.p99))
	}
	frozen := results[1]
	for i, c := range contests {
		r := results[i]
		what := fmt.Sprintf("throttled by %s: a topic of %d/s gets %.0f/s, and a neighbour on its connection publishes %d in %v, p50 %v, p99 %v",
			c.name, rate, float64(r.slow)/duration.Seconds(), r.fast, duration, short(r.p50), short(r.p99))
		// The median decides: on a busy machine the p99 is the machine's.
		f.TellBrisk(what, (c.freezes || 3*r.p50 < frozen.p50) && (i == 0 || within(r.slow, rate*int(duration.Seconds()))), r)
	}
	f.TellBrisk("with the gate's pause a neighbour has less than a third of what it has with its hold", 3*results[2].fast < results[3].fast, results[2].fast, results[3].fast)
	f.End()
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// within allows for the first burst, and for a busy machine.
func within(got, want int) bool { return got > want*7/10 && got < want*13/10+rate }

func (c contest) run(n int) (r result) {
	ctx := context.Background()
	slowName, fastName := fmt.Sprintf("slow-%d", n), fmt.Sprintf("neighbour-%d", n)
	client, err := pulsarproducer.Connect(ctx, c.address, c.client)
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
