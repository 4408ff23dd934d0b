package pulsarproducer_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/pulsarwire"
)

// server is a broker that the test plays: it makes every producer, answers every
// message at once unless it is quiet, and sends what it is told to.
type server struct {
	partitions uint64
	refuse     pulsarwire.ServerError // of every producer; 0 = none
	unknown    pulsarwire.ServerError // of every question for partitions; 0 = none
	mute       bool                   // about producers

	mu       sync.Mutex
	conns    []net.Conn
	quiet    bool
	arrived  []arrival
	receipts []uint64 // ThrottleProducerReceipt, by request id
	ended    []uint64 // producers, by id
	hello    pulsarwire.Connect
	wg       sync.WaitGroup
}

// arrival is one message.
type arrival struct {
	Producer, Sequence uint64
	At                 time.Time
}

func (s *server) dial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	s.conns = append(s.conns, far)
	s.mu.Unlock()
	s.wg.Go(func() { s.serve(far) })
	return near, nil
}

func (s *server) serve(c net.Conn) {
	in := pulsarwire.NewReader(bufio.NewReader(c), 0)
	for {
		f, err := in.Next()
		if err != nil {
			return
		}
		t, body := s.answer(f)
		if t != 0 {
			c.Write(pulsarwire.AppendFrame(nil, t, body))
		}
	}
}

func (s *server) answer(f pulsarwire.Frame) (pulsarwire.Type, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Type {
	case pulsarwire.TypeConnect:
		s.hello, _ = pulsarwire.DecodeConnect(f.Body)
		return pulsarwire.TypeConnected, pulsarwire.Connected{ServerVersion: "t", MaxMessageSize: 1 << 20}.Append(nil)
	case pulsarwire.TypePartitionedMetadata:
		r, _ := pulsarwire.DecodeTopicRequest(f.Body)
		return pulsarwire.TypePartitionedMetadataOK, pulsarwire.PartitionedMetadata{
			RequestID: r.RequestID, Partitions: s.partitions, Failed: s.unknown != 0, Code: s.unknown, Message: "no",
		}.Append(nil)
	case pulsarwire.TypeLookup:
		r, _ := pulsarwire.DecodeTopicRequest(f.Body)
		return pulsarwire.TypeLookupResponse, pulsarwire.LookupResponse{
			BrokerURL: "pulsar://b:1", Response: pulsarwire.LookupConnect, RequestID: r.RequestID, ThroughServiceURL: true,
		}.Append(nil)
	case pulsarwire.TypeProducer:
		p, _ := pulsarwire.DecodeProducer(f.Body)
		if s.mute {
			return 0, nil
		}
		if s.refuse != 0 {
			return pulsarwire.TypeError, pulsarwire.Error{RequestID: p.RequestID, Code: s.refuse, Message: "no"}.Append(nil)
		}
		return pulsarwire.TypeProducerSuccess, pulsarwire.ProducerSuccess{RequestID: p.RequestID, Name: "n"}.Append(nil)
	case pulsarwire.TypeSend:
		m, _ := pulsarwire.DecodeSend(f.Body)
		s.arrived = append(s.arrived, arrival{m.ProducerID, m.SequenceID, time.Now()})
		if s.quiet {
			return 0, nil
		}
		return pulsarwire.TypeSendReceipt, pulsarwire.SendReceipt{ProducerID: m.ProducerID, SequenceID: m.SequenceID}.Append(nil)
	case pulsarwire.TypeThrottleProducerReceipt:
		id, _ := pulsarwire.DecodeRequestID(f.Body, 1)
		s.receipts = append(s.receipts, id)
	case pulsarwire.TypeCloseProducer:
		m, _ := pulsarwire.DecodeCloseProducer(f.Body)
		s.ended = append(s.ended, m.ProducerID)
		return pulsarwire.TypeSuccess, pulsarwire.AppendRequestID(nil, m.RequestID)
	default:
	}
	return 0, nil
}

// send writes a frame to the connection that has the producers.
func (s *server) send(t pulsarwire.Type, body []byte) {
	s.mu.Lock()
	c := s.conns[len(s.conns)-1]
	s.mu.Unlock()
	c.Write(pulsarwire.AppendFrame(nil, t, body))
	synctest.Wait()
}

// throttle sends a ThrottleProducer.
func (s *server) throttle(id, producer uint64, reason pulsarwire.Reason, d time.Duration) {
	s.send(pulsarwire.TypeThrottleProducer, pulsarwire.ThrottleProducer{
		RequestID: id, ProducerID: producer, Reason: reason, PauseMillis: uint64(d / time.Millisecond),
	}.Append(nil))
}

// messages returns what has arrived of a producer, as times since start.
func (s *server) messages(producer uint64, start time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []time.Duration
	for _, a := range s.arrived {
		if a.Producer == producer {
			out = append(out, a.At.Sub(start))
		}
	}
	return out
}

// connect returns a client of the server.
func (s *server) connect(t *testing.T, o pulsarproducer.Options) *pulsarproducer.Client {
	t.Helper()
	o.Dial = s.dial
	c, err := pulsarproducer.Connect(t.Context(), "gate:6650", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			conn.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return c
}

// producer returns a producer of a new client.
func (s *server) producer(t *testing.T, o pulsarproducer.ProducerOptions) *pulsarproducer.Producer {
	t.Helper()
	p, err := s.connect(t, pulsarproducer.Options{}).NewProducer(t.Context(), "t", o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A throttled producer acknowledges at once, keeps its messages back for exactly
// as long as it was told, in order, and says that it is throttled.
func TestThrottledProducerDefers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var counted []string
		c := s.connect(t, pulsarproducer.Options{Throttled: func(topic string, r pulsarwire.Reason, d time.Duration) {
			counted = append(counted, fmt.Sprint(topic, " ", r, " ", d))
		}})
		p, err := c.NewProducer(t.Context(), "t", pulsarproducer.ProducerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.NewProducer(t.Context(), "u", pulsarproducer.ProducerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !s.hello.Throttling || s.hello.ProxyToBroker != "b:1" {
			t.Errorf("CONNECT = %+v; want the flag, and the broker of the lookup", s.hello)
		}
		start := time.Now()
		s.throttle(7, 1, pulsarwire.TopicProduceQuotaExceeded, 500*time.Millisecond)
		if d := cmp.Diff([]uint64{7}, s.receipts); d != "" {
			t.Errorf("receipts (-want +got):\n%s", d)
		}
		if reason, left, ok := p.Throttling(); !p.IsThrottled() || !ok || left != 500*time.Millisecond || reason != pulsarwire.TopicProduceQuotaExceeded {
			t.Errorf("Throttling = %v, %v, %v; want the topic's quota for 500ms", reason, left, ok)
		}
		if other.IsThrottled() {
			t.Error("another producer of the connection is throttled")
		}
		time.Sleep(300 * time.Millisecond)
		s.throttle(8, 1, pulsarwire.ResourceGroupProduceQuotaExceeded, 400*time.Millisecond) // until 700 ms
		var wg sync.WaitGroup
		for range 3 {
			wg.Add(1)
			p.SendAsync(t.Context(), []byte("x"), func(err error) {
				if err != nil {
					t.Errorf("Send: %v", err)
				}
				wg.Done()
			})
		}
		if err := other.Send(t.Context(), []byte("y")); err != nil {
			t.Errorf("the other producer's Send: %v", err)
		}
		wg.Wait()
		seven := 700 * time.Millisecond
		if d := cmp.Diff([]time.Duration{seven, seven, seven}, s.messages(1, start)); d != "" {
			t.Errorf("arrivals (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]time.Duration{300 * time.Millisecond}, s.messages(2, start)); d != "" {
			t.Errorf("arrivals of the other producer (-want +got):\n%s", d)
		}
		if p.IsThrottled() {
			t.Error("still throttled when the time is over")
		}
		want := []string{"t topic_produce_quota_exceeded 500ms", "t resource_group_produce_quota_exceeded 200ms"}
		if d := cmp.Diff(want, counted); d != "" {
			t.Errorf("the hook counted (-want +got):\n%s", d)
		}
	})
}

// Who cannot wait for the end of the throttling is told at once, whether it
// waits already or comes later, and is not sent.
func TestDeadlineWithinTheThrottleFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := s.producer(t, pulsarproducer.ProducerOptions{SendTimeout: 2 * time.Second})
		s.throttle(1, 1, pulsarwire.TopicProduceQuotaExceeded, time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var throttled *pulsarproducer.ProducerThrottledError
		err := p.Send(ctx, []byte("x"))
		if !errors.As(err, &throttled) || time.Since(start) != 0 {
			t.Fatalf("Send = %v after %v; want a ProducerThrottledError at once", err, time.Since(start))
		}
		want := pulsarproducer.ProducerThrottledError{Topic: "t", Remaining: time.Second}
		if d := cmp.Diff(want, *throttled); d != "" {
			t.Errorf("error (-want +got):\n%s", d)
		}
		result := make(chan error, 1)
		p.SendAsync(t.Context(), []byte("y"), func(err error) { result <- err }) // its deadline is in 2 s
		s.throttle(2, 1, pulsarwire.TopicProduceQuotaExceeded, 3*time.Second)
		if err := <-result; !errors.As(err, &throttled) || throttled.Remaining != 3*time.Second || time.Since(start) != 0 {
			t.Errorf("a deferred message: %v after %v; want ProducerThrottledError at once", err, time.Since(start))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(s.arrived); n != 0 {
			t.Errorf("%d messages arrived that had failed", n)
		}
	})
}

// A timeout is called throttling when more than 80 % of the wait was that, and
// only then.
func TestTimeoutAfterThrottling(t *testing.T) {
	for name, tc := range map[string]struct {
		pause     time.Duration
		reason    pulsarwire.Reason
		throttled bool
	}{
		"most":         {900 * time.Millisecond, pulsarwire.TopicProduceQuotaExceeded, true},
		"exactly 80 %": {800 * time.Millisecond, pulsarwire.TopicProduceQuotaExceeded, false},
		"little":       {100 * time.Millisecond, pulsarwire.TopicProduceQuotaExceeded, false},
		"connection":   {0, pulsarwire.ConnectionPendingMessagesBreach, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{quiet: true}
				p := s.producer(t, pulsarproducer.ProducerOptions{SendTimeout: time.Second})
				s.throttle(1, 1, tc.reason, tc.pause)
				start := time.Now()
				err := p.Send(t.Context(), []byte("x"))
				var throttled *pulsarproducer.ProducerThrottledError
				if errors.As(err, &throttled) != tc.throttled || errors.Is(err, pulsarproducer.ErrTimeout) == tc.throttled {
					t.Errorf("Send = %v; throttled = %v wanted", err, tc.throttled)
				}
				if tc.throttled && throttled.Reason != tc.reason {
					t.Errorf("reason %v; want %v", throttled.Reason, tc.reason)
				}
				if d := time.Since(start); d != time.Second {
					t.Errorf("failed after %v; want exactly 1s", d)
				}
			})
		})
	}
}

// A pause of the whole connection has no known end: nothing is deferred, and the
// next receipt ends it.
func TestConnectionLevelThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		p := s.producer(t, pulsarproducer.ProducerOptions{})
		s.throttle(1, 1, pulsarwire.MessageBufferSizeBreach, 0)
		if !p.IsThrottled() {
			t.Error("IsThrottled = false")
		}
		start := time.Now()
		if err := p.Send(t.Context(), []byte("x")); err != nil || time.Since(start) != 0 {
			t.Errorf("Send = %v after %v; want nil at once", err, time.Since(start))
		}
		if p.IsThrottled() {
			t.Error("IsThrottled after a receipt")
		}
	})
}

// A partitioned producer goes around throttled partitions, and is throttled when
// any of them is.
func TestPartitionedSkipsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{partitions: 3}
		p, err := s.connect(t, pulsarproducer.Options{}).NewPartitioned(t.Context(), "t", pulsarproducer.ProducerOptions{SendTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		send := func(n int) map[uint64]int {
			s.arrived = nil
			for range n {
				if err := p.Send(t.Context(), []byte("x")); err != nil {
					t.Fatalf("Send: %v", err)
				}
			}
			got := map[uint64]int{}
			for _, a := range s.arrived {
				got[a.Producer]++
			}
			return got
		}
		if d := cmp.Diff(map[uint64]int{1: 4, 2: 4, 3: 4}, send(12)); d != "" || p.IsThrottled() {
			t.Errorf("unthrottled spread (-want +got):\n%s", d)
		}
		s.throttle(1, 2, pulsarwire.TopicProduceQuotaExceeded, time.Second)
		if d := cmp.Diff(map[uint64]int{1: 6, 3: 6}, send(12)); d != "" {
			t.Errorf("spread with one throttled (-want +got):\n%s", d)
		}
		if !p.IsThrottled() {
			t.Error("IsThrottled = false with one throttled partition")
		}
		s.throttle(2, 1, pulsarwire.TopicProduceQuotaExceeded, time.Second)
		s.throttle(3, 3, pulsarwire.TopicProduceQuotaExceeded, time.Second)
		start := time.Now()
		if send(1); time.Since(start) != time.Second {
			t.Errorf("with all throttled a message took %v; want 1s", time.Since(start))
		}
		if p.IsThrottled() {
			t.Error("IsThrottled when the time is over")
		}
	})
}

// SendAsync returns at once although nobody reads what it sends, and the bound on
// what is pending fails rather than waits.
func TestSendAsyncNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		hands := make(chan struct{})
		go func() { // shakes hands, makes one producer, then never reads again
			defer close(hands)
			s := &server{}
			in := pulsarwire.NewReader(far, 0)
			for range 3 {
				f, err := in.Next()
				if err != nil {
					t.Error(err)
					return
				}
				typ, body := s.answer(f)
				body = bytes.Replace(body, []byte("pulsar://b:1"), []byte("pulsar://g:1"), 1)
				if typ == pulsarwire.TypeLookupResponse {
					r, _ := pulsarwire.DecodeLookupResponse(body)
					r.ThroughServiceURL = false
					body = r.Append(nil)
				}
				far.Write(pulsarwire.AppendFrame(nil, typ, body))
			}
		}()
		c, err := pulsarproducer.Connect(t.Context(), "g:1", pulsarproducer.Options{
			Dial: func(context.Context, string) (net.Conn, error) { return near, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.NewProducer(t.Context(), "t", pulsarproducer.ProducerOptions{MaxPending: 100, SendTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		<-hands
		start := time.Now()
		failed := map[string]int{}
		var mu sync.Mutex
		for range 150 {
			p.SendAsync(t.Context(), make([]byte, 10_000), func(err error) {
				mu.Lock()
				defer mu.Unlock()
				failed[err.Error()]++
			})
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("SendAsync blocked for %v", d)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := map[string]int{pulsarproducer.ErrQueueFull.Error(): 50, pulsarproducer.ErrTimeout.Error(): 100}
		if d := cmp.Diff(want, failed); d != "" {
			t.Errorf("errors (-want +got):\n%s", d)
		}
		sent := 0
		for err = nil; !errors.Is(err, pulsarproducer.ErrQueueFull) && sent < 100; sent++ {
			err = p.Send(t.Context(), make([]byte, 1<<20)) // each times out; what was to be written stays
		}
		if sent < 60 || sent > 70 {
			t.Errorf("a message was turned away after %d MiB; want about 64", sent)
		}
		c.Close()
		far.Close()
	})
}

// Whatever ends a producer ends its messages, each exactly once.
func TestEndings(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(s *server, p *pulsarproducer.Producer, cancel context.CancelFunc)
		want string
	}{
		"connection lost": {func(s *server, _ *pulsarproducer.Producer, _ context.CancelFunc) {
			s.conns[len(s.conns)-1].Close()
		}, "closed"},
		"closed by the broker": {func(s *server, _ *pulsarproducer.Producer, _ context.CancelFunc) {
			s.send(pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: 1}.Append(nil))
		}, "closed: by the broker"},
		"closed": {func(_ *server, p *pulsarproducer.Producer, _ context.CancelFunc) {
			if err := p.Close(context.Background()); err != nil {
				panic(err)
			}
		}, "closed"},
		"refused": {func(s *server, _ *pulsarproducer.Producer, _ context.CancelFunc) {
			s.send(pulsarwire.TypeSendError, pulsarwire.SendError{ProducerID: 1, SequenceID: 0, Code: 9, Message: "bad"}.Append(nil))
		}, "server error 9: bad"},
		"canceled": {func(_ *server, _ *pulsarproducer.Producer, cancel context.CancelFunc) { cancel() }, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{quiet: true}
				p := s.producer(t, pulsarproducer.ProducerOptions{SendTimeout: time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ends []error
				p.SendAsync(ctx, []byte("x"), func(err error) { ends = append(ends, err) })
				synctest.Wait()
				tc.end(s, p, cancel)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(ends) != 1 || !strings.Contains(ends[0].Error(), tc.want) {
					t.Errorf("ends = %v; want one with %q", ends, tc.want)
				}
			})
		})
	}
}

// A producer whose maker did not wait for the answer is ended.
func TestProducerGivenUpIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{mute: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := s.connect(t, pulsarproducer.Options{})
		if _, err := c.NewProducer(ctx, "t", pulsarproducer.ProducerOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("NewProducer = %v; want DeadlineExceeded", err)
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if d := cmp.Diff([]uint64{1}, s.ended); d != "" {
			t.Errorf("producers ended (-want +got):\n%s", d)
		}
	})
}

// A question for the partitions that fails does not count as none.
func TestPartitionsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{unknown: pulsarwire.ServiceNotReady}
		_, err := s.connect(t, pulsarproducer.Options{}).NewPartitioned(t.Context(), "t", pulsarproducer.ProducerOptions{})
		var refused *pulsarproducer.ServerError
		if !errors.As(err, &refused) || refused.Code != pulsarwire.ServiceNotReady || refused.Message != "no" {
			t.Errorf("NewPartitioned = %v; want ServiceNotReady", err)
		}
	})
}

// A refused producer is a typed error.
func TestProducerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{refuse: pulsarwire.TooManyRequests}
		_, err := s.connect(t, pulsarproducer.Options{}).NewProducer(t.Context(), "t", pulsarproducer.ProducerOptions{})
		var refused *pulsarproducer.ServerError
		if !errors.As(err, &refused) || refused.Code != pulsarwire.TooManyRequests {
			t.Errorf("NewProducer = %v; want TooManyRequests", err)
		}
	})
}

// A silent connection is asked, and given up when it does not answer.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{quiet: true}
		p, err := s.connect(t, pulsarproducer.Options{KeepAlive: time.Second}).NewProducer(t.Context(), "t", pulsarproducer.ProducerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = p.Send(t.Context(), []byte("x"))
		if !errors.Is(err, pulsarproducer.ErrClosed) || time.Since(start) != 3*time.Second {
			t.Errorf("Send = %v after %v; want ErrClosed after 3s: heard, asked, given up", err, time.Since(start))
		}
	})
}

// When a throttling is over, what was deferred goes out in a window that grows
// with the receipts, rather than all at once into the same limit.
func TestDeferredMessagesStartSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{quiet: true}
		p := s.producer(t, pulsarproducer.ProducerOptions{})
		s.throttle(1, 1, pulsarwire.TopicProduceQuotaExceeded, time.Second)
		for range 100 {
			p.SendAsync(t.Context(), []byte("x"), func(error) {})
		}
		start := time.Now()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if n := len(s.messages(1, start)); n != 16 {
			t.Errorf("%d messages before the first receipt; want 16", n)
		}
		for i := range uint64(4) {
			s.send(pulsarwire.TypeSendReceipt, pulsarwire.SendReceipt{ProducerID: 1, SequenceID: i}.Append(nil))
		}
		if n := len(s.messages(1, start)); n != 24 {
			t.Errorf("%d messages after 4 receipts; want 24: one for each, and one more", n)
		}
	})
}
