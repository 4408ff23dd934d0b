package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"github.com/admitd/admitd/proving/pulsar"
)

// beside has a consumer on the connection of a producer whose messages are held. It
// acknowledges half of each batch.
func (c *cell) beside(ctx context.Context) {
	const n = 200
	p := c.producer(client.ProducerOptions{Topic: "go-beside", BatchingMaxMessages: 50, BatchingMaxPublishDelay: 50 * time.Millisecond})
	c.Must("messages in batches", publish(ctx, p, n))
	p.Close()
	slow := c.producer(client.ProducerOptions{Topic: "held-beside", DisableBatching: true})
	defer slow.Close()
	held := make(chan error, 1)
	go func() { held <- publish(ctx, slow, 60) }()
	s := c.acknowledging("go-beside")
	var odd []string
	for range n {
		m, err := s.Receive(ctx)
		c.Must("a message", err)
		if i, _ := strconv.Atoi(string(m.Payload())); i%2 == 0 {
			c.Must("an acknowledgment", s.Ack(m))
			continue
		}
		odd = append(odd, string(m.Payload()))
	}
	s.Close()
	c.TellBrisk("200 messages come to a consumer, and are acknowledged, while those of a producer on its connection are held", len(held) == 0)
	s = c.acknowledging("go-beside")
	defer s.Close()
	again, err := receive(ctx, s, len(odd))
	late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, more := s.Receive(late)
	c.Tell("what it did not acknowledge of each batch comes again, and nothing else", err == nil && more != nil && strings.Join(again, " ") == strings.Join(odd, " "), err, len(again))
	c.Must("what was held", <-held)
}

// acknowledging returns a consumer whose acknowledgments are answered.
func (c *cell) acknowledging(topic string) client.Consumer {
	s, err := c.client.Subscribe(client.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", SubscriptionInitialPosition: client.SubscriptionPositionEarliest,
		EnableBatchIndexAcknowledgment: true, AckWithResponse: true,
	})
	c.Must("a consumer of "+topic, err)
	return s
}

// renewal has a token that expires while its producer publishes.
func (c *cell) renewal(ctx context.Context) {
	var asked atomic.Int64
	own, err := client.NewClient(client.ClientOptions{
		URL: os.Getenv("GATE_URL"), MaxConnectionsPerBroker: 1, OperationTimeout: 10 * time.Second,
		Authentication: client.NewAuthenticationTokenFromSupplier(func() (string, error) {
			asked.Add(1)
			return token(3 * time.Second), nil
		}),
	})
	c.Must("a client", err)
	defer own.Close()
	p, err := own.CreateProducer(client.ProducerOptions{Topic: "go-renewed", DisableBatching: true})
	c.Must("a producer", err)
	connections, tokens := c.connections(ctx), asked.Load()
	var failed error
	for began := time.Now(); time.Since(began) < 7*time.Second; time.Sleep(50 * time.Millisecond) {
		if _, err := p.Send(ctx, &client.ProducerMessage{Payload: []byte("x")}); err != nil {
			failed = err
		}
	}
	c.Tell("a token that expires is asked for anew by the broker, and the connection stays", failed == nil && asked.Load() >= tokens+2 && c.connections(ctx) == connections,
		failed, tokens, asked.Load(), connections, c.connections(ctx))

	r, err := pulsar.Dial(ctx, os.Getenv("GATE"), token(2*time.Second), "")
	c.Must("a connection with a token of 2 s", err)
	defer r.Close()
	lives, began := true, time.Now()
	for lives && time.Since(began) < 20*time.Second {
		time.Sleep(500 * time.Millisecond)
		lives = r.Alive(5 * time.Second)
	}
	c.Tell("who does not bring a new one is let go by the broker", !lives, time.Since(began))
}

// connections returns how many the gate has accepted.
func (c *cell) connections(ctx context.Context) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("GATE_ADMIN")+"/metrics", nil)
	c.Must("metrics", err)
	res, err := http.DefaultClient.Do(req)
	c.Must("metrics", err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	c.Must("metrics", err)
	n := 0
	for line := range bytes.Lines(all) {
		if name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " "); strings.HasPrefix(name, "admitd_connections_accepted_total{") {
			v, _ := strconv.ParseFloat(value, 64)
			n += int(v)
		}
	}
	return n
}

// token returns one that the broker takes for a time.
func token(life time.Duration) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub":"somebody","exp":%d}`, time.Now().Add(life).Unix()))
	mac := hmac.New(sha256.New, []byte(os.Getenv("SECRET")))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
