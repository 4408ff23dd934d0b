package pulsarclient_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/limiter"
)

// serve runs handle for every connection to a loopback port until the test ends.
func serve(t *testing.T, handle func(context.Context, net.Conn)) (address string, accepted *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int64)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			wg.Go(func() { handle(ctx, c) })
		}
	})
	t.Cleanup(func() {
		cancel()
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String(), accepted
}

// setup is a broker, the gate before it, and a client of the gate.
type setup struct {
	broker     *modelpulsar.Broker
	gateAccept *atomic.Int64
	server     *pulsargate.Server
	client     pulsar.Client
	drain      func() // of the connections that there are
}

// newSetup starts them; they end with the test.
func newSetup(t *testing.T, b modelpulsar.Options, o pulsargate.Options, p *limiter.Policy) *setup {
	t.Helper()
	s := &setup{broker: modelpulsar.New(b)}
	brokerLn, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.broker.Serve(ctx, brokerLn)
	}()
	t.Cleanup(func() { cancel(); <-served })
	o.Backend = brokerLn.Addr().String()
	if s.server, err = pulsargate.New(limiter.New("queue", p, limiter.Options{}), o); err != nil {
		t.Fatal(err)
	}
	draining, drain := context.WithCancel(context.Background())
	s.drain = drain
	t.Cleanup(drain)
	address, accepted := serve(t, func(ctx context.Context, c net.Conn) {
		if draining.Err() == nil { // the connections of before the drain
			s.server.ServeConn(draining, c)
			return
		}
		s.server.ServeConn(ctx, c)
	})
	s.gateAccept = accepted
	s.client, err = pulsar.NewClient(pulsar.ClientOptions{
		URL: "pulsar://" + address, OperationTimeout: 5 * time.Second, Logger: plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// open is a policy that refuses nothing.
func open() *limiter.Policy { return &limiter.Policy{Mode: limiter.Off} }

// send publishes n messages one after the other and returns how long each took.
func send(t *testing.T, p pulsar.Producer, n int) []time.Duration {
	t.Helper()
	var waits []time.Duration
	for i := range n {
		start := time.Now()
		if _, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte("hello")}); err != nil {
			t.Errorf("Send %d: %v", i, err)
			return waits
		}
		waits = append(waits, time.Since(start))
	}
	return waits
}

// producer returns a producer without batching.
func (s *setup) producer(t *testing.T, topic string) pulsar.Producer {
	t.Helper()
	p, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
	if err != nil {
		t.Fatalf("CreateProducer: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// The unmodified client looks a topic up, stays on the gate although the answer
// names the broker, and its messages arrive with valid checksums.
func TestClientStaysOnTheGate(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{}, pulsargate.Options{}, open())
	send(t, s.producer(t, "orders"), 20)
	st := s.broker.Stats()
	if st.Sends.Load() != 20 || st.Violations.Load() != 0 || st.Unknown.Load() != 0 {
		t.Errorf("broker saw %d sends, %d violations, %d unknown commands; want 20, 0, 0",
			st.Sends.Load(), st.Violations.Load(), st.Unknown.Load())
	}
	if g, b := s.gateAccept.Load(), st.Connections.Load(); g != b || g < 2 {
		t.Errorf("gate accepted %d connections, broker %d; want the same, at least the lookup's and the producer's", g, b)
	}
}

// A held producer is slow and never fails; its neighbour on the same connection
// does not notice.
func TestHoldSparesTheNeighbour(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{}, pulsargate.Options{
		MinPause: 500 * time.Millisecond,
		Limits: pulsargate.Limits{Topics: []topics.Limit{{
			Name: "slow", Match: "slow", PublishRate: topics.PublishRate{Messages: 40, BurstSeconds: 0.5},
		}}},
	}, open())
	slow, fast := s.producer(t, "slow"), s.producer(t, "fast")
	if n := s.gateAccept.Load(); n != 2 {
		t.Fatalf("%d connections; want 2: one for lookups, one that both producers share", n)
	}
	done := make(chan []time.Duration, 1)
	go func() { done <- send(t, slow, 50) }()
	var waits []time.Duration
	for {
		select {
		case held := <-done:
			if slowest := slices.Max(held); slowest < 400*time.Millisecond || slowest > 900*time.Millisecond {
				t.Errorf("the held producer waited %v at most; want about 500ms", slowest)
			}
			slices.Sort(waits)
			p99 := waits[len(waits)*99/100]
			if p99 > 5*time.Millisecond {
				t.Errorf("its neighbour's p99 is %v; want at most 5ms", p99)
			}
			t.Logf("neighbour: %d sends, p99 %v, longest %v", len(waits), p99, waits[len(waits)-1])
			if v := s.broker.Stats().Violations.Load(); v != 0 {
				t.Errorf("%d violations at the broker", v)
			}
			return
		default:
			waits = append(waits, send(t, fast, 1)...)
		}
	}
}

// When the gate drains, the client connects again and sends what had no receipt,
// held messages included: each is published, none is refused.
func TestDrainLosesNothing(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{}, pulsargate.Options{
		Limits: pulsargate.Limits{Topic: topics.PublishRate{Messages: 20, BurstSeconds: 1}},
	}, open())
	p := s.producer(t, "t")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Add(1)
		p.SendAsync(t.Context(), &pulsar.ProducerMessage{Payload: []byte("x")}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
			wg.Done()
		})
	}
	time.AfterFunc(300*time.Millisecond, s.drain)
	wg.Wait()
	if n := s.gateAccept.Load(); n < 3 {
		t.Errorf("%d connections; want at least 3: the client came back", n)
	}
	if st := s.broker.Stats(); st.Sends.Load() < 40 || st.Violations.Load() != 0 {
		t.Errorf("the broker got %d messages, %d violations; want at least 40, none", st.Sends.Load(), st.Violations.Load())
	}
}

// Refusing a producer is typed, at once, and leaves the connection to the others.
func TestTooManyProducersAreRefused(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{}, pulsargate.Options{Limits: pulsargate.Limits{MaxProducers: 1}}, open())
	first := s.producer(t, "a")
	_, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: "b"})
	if err == nil || !strings.Contains(err.Error(), "TooManyRequests") {
		t.Errorf("CreateProducer over the bound = %v; want TooManyRequests", err)
	}
	send(t, first, 3)
	if n := s.gateAccept.Load(); n != 2 {
		t.Errorf("%d connections; want 2: a refusal keeps the connection", n)
	}
}

// A lookup that leads to a broker outside the list is refused, so the client can
// neither be sent around the gate nor through it to anywhere.
func TestLookupOutsideTheListIsRefused(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{URL: "pulsar://192.0.2.1:6650"}, pulsargate.Options{}, open())
	_, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: "a"})
	if err == nil || !strings.Contains(err.Error(), "NotAllowedError") {
		t.Errorf("CreateProducer = %v; want NotAllowedError", err)
	}
}

// Batches, large messages and a partitioned topic pass; the checksums stay valid.
func TestBatchesChunksAndPartitions(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{Partitions: map[string]int{"persistent://public/default/parts": 3}},
		pulsargate.Options{}, open())
	p, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: "parts", BatchingMaxPublishDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 300 {
		wg.Add(1)
		p.SendAsync(t.Context(), &pulsar.ProducerMessage{Payload: []byte("x")}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				failed.Add(1)
			}
			wg.Done()
		})
	}
	wg.Wait()
	if _, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: make([]byte, 4<<20)}); err != nil {
		t.Errorf("Send of 4 MiB: %v", err)
	}
	st := s.broker.Stats()
	if failed.Load() != 0 || st.Violations.Load() != 0 || st.Producers.Load() != 3 {
		t.Errorf("%d failed, %d violations, %d producers; want 0, 0, 3", failed.Load(), st.Violations.Load(), st.Producers.Load())
	}
}

// A client that does not know throttling sees a long hold as its own timeout: the
// connection stays, and what timed out was never forwarded.
func TestTimeoutsAreTheClientsOwn(t *testing.T) {
	s := newSetup(t, modelpulsar.Options{}, pulsargate.Options{
		MinPause: 4 * time.Second,
		Limits:   pulsargate.Limits{Topic: topics.PublishRate{Messages: 1}},
	}, open())
	p, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: "t", DisableBatching: true, SendTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	send(t, p, 1)
	_, err = p.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte("late")})
	if !errors.Is(err, pulsar.ErrSendTimeout) {
		t.Errorf("Send = %v; want the client's own timeout", err)
	}
	if n := s.broker.Stats().Sends.Load(); n != 1 {
		t.Errorf("the broker got %d messages; want 1", n)
	}
	if n := s.gateAccept.Load(); n != 2 {
		t.Errorf("%d connections; want 2: the client stays connected", n)
	}
}
