// Command goclient is the cell of the unmodified Go client. With an argument it shows
// what one client shows for all: acknowledgments beside a held producer, a broker that
// throttles too, and tokens that expire.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"

	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/proving/pulsar"
)

// cell is the client under test.
type cell struct {
	pulsar.Facts
	client client.Client
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	c := &cell{}
	c.connect(os.Getenv("GATE_URL"), os.Getenv("TOKEN"))
	if len(os.Args) > 1 {
		c.beside(ctx)
		c.throttled(ctx)
		c.renewal(ctx)
		c.End()
		return
	}
	c.batches(ctx)
	c.chunks(ctx)
	c.schemas(ctx)
	c.transactions(ctx)
	c.partitions(ctx)
	c.held(ctx)
	c.unloaded(ctx)
	c.client.Close()
	c.authentication(ctx)
	c.anyBroker(ctx)
	c.overTLS(ctx)
	c.End()
}

func (c *cell) connect(url, token string) {
	var err error
	c.client, err = client.NewClient(client.ClientOptions{
		URL: url, Authentication: client.NewAuthenticationToken(token), TLSTrustCertsFilePath: os.Getenv("CERT"),
		EnableTransaction: true, MaxConnectionsPerBroker: 1, OperationTimeout: 20 * time.Second,
	})
	c.Must("a client", err)
}

func (c *cell) producer(o client.ProducerOptions) client.Producer {
	p, err := c.client.CreateProducer(o)
	c.Must("a producer of "+o.Topic, err)
	return p
}

func (c *cell) consumer(topic string) client.Consumer {
	s, err := c.client.Subscribe(client.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", SubscriptionInitialPosition: client.SubscriptionPositionEarliest,
		EnableBatchIndexAcknowledgment: true, Type: client.Exclusive,
	})
	c.Must("a consumer of "+topic, err)
	return s
}

// publish sends payloads 0 to n-1 and returns the first error of their receipts.
func publish(ctx context.Context, p client.Producer, n int) error {
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		p.SendAsync(ctx, &client.ProducerMessage{Payload: []byte(strconv.Itoa(i))}, func(_ client.MessageID, _ *client.ProducerMessage, err error) {
			if err != nil {
				first.CompareAndSwap(nil, &err)
			}
			wg.Done()
		})
	}
	err := p.FlushWithCtx(ctx)
	wg.Wait()
	if e := first.Load(); e != nil {
		return *e
	}
	return err
}

// receive reads n payloads and acknowledges them.
func receive(ctx context.Context, s client.Consumer, n int) (got []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	for range n {
		m, err := s.Receive(ctx)
		if err != nil {
			return got, err
		}
		got = append(got, string(m.Payload()))
		if err := s.Ack(m); err != nil {
			return got, err
		}
	}
	return got, nil
}

// distinct reads until n different payloads came that are asked for.
func distinct(ctx context.Context, s client.Consumer, asked func(string) bool, n int) (map[string]bool, error) {
	seen := map[string]bool{}
	for len(seen) < n {
		got, err := receive(ctx, s, 1)
		if err != nil {
			return seen, err
		}
		if asked(got[0]) {
			seen[got[0]] = true
		}
	}
	return seen, nil
}

func inOrder(got []string, n int) bool {
	for i, s := range got {
		if s != strconv.Itoa(i) {
			return false
		}
	}
	return len(got) == n
}

func (c *cell) batches(ctx context.Context) {
	p := c.producer(client.ProducerOptions{Topic: "go-batches", CompressionType: client.LZ4, BatchingMaxPublishDelay: 5 * time.Millisecond})
	s := c.consumer("go-batches")
	defer s.Close()
	err := publish(ctx, p, 3000)
	got, err2 := receive(ctx, s, 3000)
	c.Tell("3000 messages in compressed batches, in order at a consumer that acknowledges inside of batches", err == nil && err2 == nil && inOrder(got, 3000), err, err2, len(got))
	p.Close()
}

func (c *cell) chunks(ctx context.Context) {
	p := c.producer(client.ProducerOptions{Topic: "go-chunks", DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 100_000})
	s := c.consumer("go-chunks")
	defer s.Close()
	big := bytes.Repeat([]byte("0123456789"), 200_000)
	_, err := p.Send(ctx, &client.ProducerMessage{Payload: big})
	got, err2 := receive(ctx, s, 1)
	c.Tell("a message of 2 MB in 20 chunks", err == nil && err2 == nil && got[0] == string(big), err, err2)
	p.Close()
}

type order struct {
	ID int `json:"id"`
}

func (c *cell) schemas(ctx context.Context) {
	schema := func(field string) client.Schema {
		return client.NewJSONSchema(`{"type":"record","name":"order","namespace":"p","fields":[{"name":"`+field+`","type":"int"}]}`, nil)
	}
	p := c.producer(client.ProducerOptions{Topic: "go-schema", Schema: schema("id")})
	_, err := p.Send(ctx, &client.ProducerMessage{Value: &order{ID: 7}})
	p.Close()
	_, refused := c.client.CreateProducer(client.ProducerOptions{Topic: "go-schema", Schema: schema("other")})
	c.Tell("a JSON schema is registered, and one that does not fit is refused by the broker", err == nil && refused != nil && strings.Contains(refused.Error(), "IncompatibleSchema"), err, refused)
}

func (c *cell) transactions(ctx context.Context) {
	p := c.producer(client.ProducerOptions{Topic: "go-txn", DisableBatching: true, SendTimeout: 0})
	s := c.consumer("go-txn")
	defer s.Close()
	for _, commit := range []bool{false, true} {
		txn, err := c.client.NewTransaction(time.Minute)
		c.Must("a transaction", err)
		for i := range 5 {
			_, err := p.Send(ctx, &client.ProducerMessage{Transaction: txn, Payload: fmt.Append(nil, commit, i)})
			c.Must("a message in a transaction", err)
		}
		if commit {
			c.Must("a commit", txn.Commit(ctx))
		} else {
			c.Must("an abort", txn.Abort(ctx))
		}
	}
	// This client sees what was aborted too, with the gate and without.
	got, err := distinct(ctx, s, func(payload string) bool { return strings.HasPrefix(payload, "true") }, 5)
	c.Tell("a transaction that was committed is seen", err == nil, got, err)
	p.Close()
}

func (c *cell) partitions(ctx context.Context) {
	c.Must("a partitioned topic", pulsar.Admin(ctx, http.MethodPut, "persistent/public/default/go-parts/partitions", 4))
	p := c.producer(client.ProducerOptions{Topic: "go-parts"})
	s := c.consumer("go-parts")
	defer s.Close()
	err := publish(ctx, p, 400)
	got, err2 := receive(ctx, s, 400)
	c.Tell("400 messages over 4 partitions", err == nil && err2 == nil && len(got) == 400, err, err2, len(got))
	p.Close()
}

// held is a topic with 20 messages a second, and a neighbour on the connection.
func (c *cell) held(ctx context.Context) {
	slow := c.producer(client.ProducerOptions{Topic: "held-go", DisableBatching: true})
	s := c.consumer("held-go")
	defer s.Close()
	fast := c.producer(client.ProducerOptions{Topic: "go-neighbour", DisableBatching: true})
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- publish(ctx, slow, 60) }()
	published := 0
	var took time.Duration
	for running := true; running; {
		select {
		case err := <-done:
			took, running = time.Since(began), false
			c.Tell("60 messages to a topic of 20 a second arrive at their rate, and none fails", err == nil && took > 1500*time.Millisecond, err, took)
		default:
			if _, err := fast.Send(ctx, &client.ProducerMessage{Payload: []byte("x")}); err != nil {
				c.Tell("a neighbour publishes", false, err)
				return
			}
			published++
		}
	}
	c.TellBrisk("a neighbour on the same connection publishes at least 5 times as much meanwhile", published >= 300, published)
	got, err := receive(ctx, s, 60)
	c.Tell("what was held is in order", err == nil && inOrder(got, 60), err, got)
	slow.Close()
	fast.Close()
}

// unloaded has the broker close a producer's topic in the middle.
func (c *cell) unloaded(ctx context.Context) {
	p := c.producer(client.ProducerOptions{Topic: "go-unloaded", DisableBatching: true, SendTimeout: 30 * time.Second})
	s := c.consumer("go-unloaded")
	defer s.Close()
	slow := c.producer(client.ProducerOptions{Topic: "held-unloaded", DisableBatching: true, SendTimeout: 60 * time.Second})
	began := time.Now()
	held := make(chan error, 1)
	go func() { held <- publish(ctx, slow, 60) }()
	stop := make(chan struct{})
	var unloads int
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(400 * time.Millisecond):
				if errors.Join(pulsar.Admin(ctx, http.MethodPut, "persistent/public/default/go-unloaded/unload", nil),
					pulsar.Admin(ctx, http.MethodPut, "persistent/public/default/held-unloaded/unload", nil)) == nil {
					unloads++
				}
			}
		}
	})
	var failed error
	n := 0
	for ; time.Since(began) < 2500*time.Millisecond; n++ {
		if _, err := p.Send(ctx, &client.ProducerMessage{Payload: []byte(strconv.Itoa(n))}); err != nil {
			failed = err
		}
	}
	close(stop)
	wg.Wait()
	err := <-held
	took := time.Since(began)
	// Some come twice to this client, with the gate and without.
	got, err2 := distinct(ctx, s, func(string) bool { return true }, n)
	c.Tell("the topic is unloaded while its producer publishes: no message is lost", unloads > 1 && failed == nil && err2 == nil, unloads, failed, err2, len(got), n)
	c.Tell("the topic of a held producer is unloaded: all arrive, and it gets no new burst by that", err == nil && took > 1500*time.Millisecond, err, took)
	p.Close()
	slow.Close()
}

func (c *cell) authentication(context.Context) {
	wrong, err := client.NewClient(client.ClientOptions{URL: os.Getenv("GATE_URL"), Authentication: client.NewAuthenticationToken(os.Getenv("TOKEN") + "x"), OperationTimeout: 3 * time.Second})
	c.Must("a client", err)
	defer wrong.Close()
	_, err = wrong.CreateProducer(client.ProducerOptions{Topic: "go-wrong"})
	c.Tell("a token that is not good is refused by the broker; with a good one all this was done", err != nil, err)
}

// anyBroker says, as clients of Pulsar 5 do, that any broker will do.
func (c *cell) anyBroker(ctx context.Context) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", os.Getenv("GATE"))
	c.Must("a connection", err)
	defer conn.Close()
	c.Must("a deadline", conn.SetDeadline(time.Now().Add(10*time.Second)))
	body := append(pulsarwire.Connect{ClientVersion: "proving", ProtocolVersion: 21}.Append(nil), 6<<3|2, 0)
	_, err = conn.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, body))
	c.Must("a CONNECT", err)
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	// Behind the two lengths stands the type: field 1 of the command.
	c.Tell("a CONNECT with an empty name of a broker is welcome", err == nil && n > 10 && answer[8] == 1<<3 && answer[9] == byte(pulsarwire.TypeConnected), err, answer[:n])
}

func (c *cell) overTLS(ctx context.Context) {
	c.connect(os.Getenv("GATE_TLS_URL"), os.Getenv("TOKEN"))
	defer c.client.Close()
	p := c.producer(client.ProducerOptions{Topic: "go-tls"})
	s := c.consumer("go-tls")
	defer s.Close()
	err := publish(ctx, p, 100)
	got, err2 := receive(ctx, s, 100)
	c.Tell("the same over TLS to the gate", err == nil && err2 == nil && inOrder(got, 100), err, err2)
	p.Close()
}
