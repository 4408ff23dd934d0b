package main

import (
	"context"
	"net/http"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"github.com/admitd/admitd/proving/pulsar"
)

// throttled has the broker throttle too: a topic, and then everything.
func (c *cell) throttled(ctx context.Context) {
	const n = 40
	p := c.producer(client.ProducerOptions{Topic: "held-both", DisableBatching: true})
	s := c.consumer("held-both")
	defer s.Close()
	rule := map[string]int{"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 100_000_000}
	c.Must("a publish rate", pulsar.Admin(ctx, http.MethodPost, "persistent/public/default/held-both/publishRate", rule))
	time.Sleep(2 * time.Second) // until the policy has come through its system topic
	began := time.Now()
	err := publish(ctx, p, n)
	took := time.Since(began)
	got, err2 := receive(ctx, s, n)
	c.Tell("40 messages to a topic of 20 a second at the gate and 10 at the broker: all arrive, in order, at the broker's rate", err == nil && err2 == nil && inOrder(got, n) && took > 2*time.Second, err, err2, took)
	p.Close()

	const all = "brokers/configuration/brokerPublisherThrottlingMaxMessageRate"
	c.Must("a rate of the broker", pulsar.Admin(ctx, http.MethodPost, all+"/100", nil))
	slow := c.producer(client.ProducerOptions{Topic: "held-broker", DisableBatching: true})
	fast := c.producer(client.ProducerOptions{Topic: "go-broker", DisableBatching: true})
	time.Sleep(time.Second) // until it is in force
	done := make(chan error, 1)
	began = time.Now()
	go func() { done <- publish(ctx, slow, n) }()
	err, err2 = publish(ctx, fast, 300), <-done
	c.Tell("300 messages through a broker of 100 a second, beside a topic that the gate holds: none fails", err == nil && err2 == nil && time.Since(began) > 1500*time.Millisecond, err, err2, time.Since(began))
	c.Must("no rate of the broker", pulsar.Admin(ctx, http.MethodDelete, all, nil))
	slow.Close()
	fast.Close()
}
