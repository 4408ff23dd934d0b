package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/proving/pulsar"
)

// topic returns the name of one whose limit is 20 messages a second, and which
// keeps what is published.
func (c *cell) topic(ctx context.Context, name string) (full, path string) {
	path = "persistent/public/default/" + name
	c.Must("a subscription", pulsar.Admin(ctx, http.MethodPut, path+"/subscription/s", nil))
	return "persistent://public/default/" + name, path
}

// stored returns how many messages the broker has of a topic.
func (c *cell) stored(ctx context.Context, path string) int {
	var stats struct {
		Subscriptions map[string]struct{ MsgBacklog int }
	}
	c.Must("the topic's statistics", pulsar.Ask(ctx, path+"/stats", &stats))
	return stats.Subscriptions["s"].MsgBacklog
}

// unloaded has the broker close a producer whose messages are held, and goes on
// with the same id and the next epoch, as clients do.
func (c *cell) unloaded(ctx context.Context) {
	const n = 60
	topic, path := c.topic(ctx, "held-wire-unloaded")
	r := c.dial(ctx, c.gate)
	defer r.Close()
	lookup(r, topic)
	name := opened(r, 1, topic, "")
	began := time.Now()
	for i := range uint64(n) {
		r.Send(1, i, 1)
	}
	got, err := r.Receipts(25, soon)
	c.Must("receipts of the first 25", err)
	c.Must("an unload", pulsar.Admin(ctx, http.MethodPut, path+"/unload", nil))
	_, err = r.Await(soon, pulsarwire.TypeCloseProducer)
	c.Tell("the broker unloads a topic of which messages are held: their producer is told", err == nil, err)
	time.Sleep(time.Second) // in which 20 more would have gone
	late, _ := r.Receipts(n, 100*time.Millisecond)
	got = append(got, late...)
	have := c.stored(ctx, path)
	c.Tell("nothing of what was held is forwarded after that, and the connection lives", have == len(got) && len(got) < n-20 && r.Alive(soon), have, len(got))

	answers := c.again(r, topic, name)
	c.Tell("the same id with the next epoch is a producer again, be the first answers ServiceNotReady", answers == "open", answers)
	for i := len(got); i < n; i++ {
		r.Send(1, uint64(i), 1)
	}
	rest, err := r.Receipts(n-len(got), 20*time.Second)
	got = append(got, rest...)
	c.Tell("what had no receipt and is sent again is stored once, in order", err == nil && slices.IsSorted(got) && c.stored(ctx, path) == n, err, got, c.stored(ctx, path))
	// Without that second it would take 2 s: a burst of 20, and 40 at 20 a second.
	c.Tell("a producer gets no new burst by being opened again", time.Since(began) > 1900*time.Millisecond, time.Since(began))
}

// again opens a producer until the broker is ready for it.
func (c *cell) again(r *pulsar.Raw, topic, name string) string {
	for range 50 {
		a, err := r.Open(1, topic, name, 1)
		if err != nil {
			return err.Error()
		}
		if a.Type == pulsarwire.TypeProducerSuccess {
			return "open"
		}
		if e, _ := pulsarwire.DecodeError(a.Body); e.Code != pulsarwire.ServiceNotReady {
			return pulsar.Told(a)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "not ready"
}

// closed has the client close a producer whose messages are held.
func (c *cell) closed(ctx context.Context) {
	topic, path := c.topic(ctx, "held-wire-closed")
	r := c.dial(ctx, c.gate)
	defer r.Close()
	lookup(r, topic)
	name := opened(r, 1, topic, "")
	for i := range uint64(30) {
		r.Send(1, i, 1)
	}
	r.Shut(1)
	a, err := r.Open(1, topic, name, 1)
	e, _ := pulsarwire.DecodeError(a.Body)
	c.Tell("a producer whose end is behind messages that are held is not opened before: ServiceNotReady", err == nil && e.Code == pulsarwire.ServiceNotReady, pulsar.Told(a), err)
	c.TellBrisk("a PING goes past what is held", r.Alive(time.Second))
	_, err = r.Await(soon, pulsarwire.TypeSuccess)
	have := c.stored(ctx, path)
	got, err2 := r.Receipts(30, 100*time.Millisecond)
	c.Tell("its end comes after the last of them", err == nil && err2 == nil && have == 30, err, err2, have, got)
	c.Tell("and then it opens", c.again(r, topic, name) == "open")
}

// alive has the broker ask whether the client is there, while the gate does not
// read from it.
func (c *cell) alive(ctx context.Context) {
	r := c.dial(ctx, c.pausing)
	defer r.Close()
	r.Mute.Store(true)
	const topic = "persistent://public/default/paused-wire"
	lookup(r, topic)
	opened(r, 1, topic, "")
	began := time.Now()
	r.Send(1, 0, 80) // of a topic of 10 a second
	r.Send(1, 1, 1)
	_, err := r.Receipts(1, soon)
	c.Must("a receipt", err)
	_, err = r.Await(soon, pulsarwire.TypePing)
	c.Tell("the broker's PINGs come through", err == nil, err)
	_, err = r.Receipts(1, 20*time.Second)
	took := time.Since(began)
	c.Tell("a client that is not read from for longer than brokers wait for a PONG stays connected", err == nil && took > 6*time.Second, err, took)
}
