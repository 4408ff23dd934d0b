package pulsargate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// answerRaw is a broker that costs as little as possible: it answers CONNECT and
// PRODUCER once and then every SEND with the same receipt.
func answerRaw(_ context.Context, c net.Conn) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	hello := pulsarwire.AppendFrame(nil, pulsarwire.TypeConnected, pulsarwire.Connected{ServerVersion: "x", MaxMessageSize: 5 << 20}.Append(nil))
	done := pulsarwire.AppendFrame(nil, pulsarwire.TypeProducerSuccess, pulsarwire.ProducerSuccess{RequestID: 1, Name: "p"}.Append(nil))
	ok := receipt(1, 0)
	for i := 0; ; i++ {
		if _, err := io.ReadFull(c, buf[:4]); err != nil {
			return
		}
		if _, err := io.ReadFull(c, buf[4:4+binary.BigEndian.Uint32(buf)]); err != nil {
			return
		}
		answer := ok
		switch i {
		case 0:
			answer = hello
		case 1:
			answer = done
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// copying is a proxy that copies bytes and knows nothing.
func copying(dial func(context.Context, string) (net.Conn, error)) func(context.Context, net.Conn) {
	return func(ctx context.Context, c net.Conn) {
		defer c.Close()
		b, err := dial(ctx, "")
		if err != nil {
			return
		}
		defer b.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			io.Copy(c, b)
			c.Close()
		})
		io.Copy(b, c)
		b.Close()
		wg.Wait()
	}
}

// route is a connection to answerRaw through something, with one producer.
type route struct {
	conn net.Conn
	send []byte
	buf  []byte
}

// newRoute connects by dial and opens a producer.
func newRoute(tb testing.TB, dial func(context.Context, string) (net.Conn, error)) *route {
	tb.Helper()
	c, err := dial(context.Background(), "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	r := &route{conn: c, send: sendFrame(1, 0, 100), buf: make([]byte, 4<<10)}
	c.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, unaware().Append(nil)))
	err = r.read()
	c.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeProducer, pulsarwire.Producer{Topic: "t", ProducerID: 1, RequestID: 1}.Append(nil)))
	if err = errors.Join(err, r.read()); err != nil {
		tb.Fatal(err)
	}
	return r
}

// read reads one frame.
func (r *route) read() error {
	if _, err := io.ReadFull(r.conn, r.buf[:4]); err != nil {
		return err
	}
	_, err := io.ReadFull(r.conn, r.buf[4:4+binary.BigEndian.Uint32(r.buf)])
	return err
}

// trip sends one message and waits for its receipt.
func (r *route) trip() error {
	if _, err := r.conn.Write(r.send); err != nil {
		return err
	}
	return r.read()
}

// trips makes n round trips.
func (r *route) trips(tb testing.TB, n int) {
	tb.Helper()
	for range n {
		if err := r.trip(); err != nil {
			tb.Fatal(err)
		}
	}
}

// limited is a gate with every kind of limit in force, none of them reached.
func limited(tb testing.TB, dial func(context.Context, string) (net.Conn, error)) *pulsargate.Server {
	tb.Helper()
	plenty := topics.PublishRate{Messages: 1e7, Bytes: 1e11}
	gate := limiter.New("q", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 1e8},
		Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1000) }},
	}, limiter.Options{})
	s, err := pulsargate.New(gate, pulsargate.Options{
		Backend: "b:1", Dial: dial,
		Limits: pulsargate.Limits{
			Gate: plenty, Topic: plenty,
			Groups: []topics.Group{{Name: "g", Match: []string{"public/default/*"}, PublishRate: plenty}},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// routes returns a connection per way to the broker.
func routes(tb testing.TB) map[string]*route {
	tb.Helper()
	direct, stop := loopback(answerRaw)
	tb.Cleanup(stop)
	copied, stop := loopback(copying(direct))
	tb.Cleanup(stop)
	gated, stop := loopback(limited(tb, direct).ServeConn)
	tb.Cleanup(stop)
	return map[string]*route{"direct": newRoute(tb, direct), "copy": newRoute(tb, copied), "gate": newRoute(tb, gated)}
}

// A round trip through the gate, with every kind of limit to ask, costs at most
// 1.5 times one through a proxy that only copies. Both are measured in turns,
// and medians are compared.
func TestPassThroughCost(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("measures time: set ADMITD_BENCH=1, on a quiet machine")
	}
	r := routes(t)
	times := map[string][]time.Duration{}
	const rounds, trips = 40, 200
	for range rounds {
		for _, name := range []string{"direct", "copy", "gate"} {
			start := time.Now()
			r[name].trips(t, trips)
			times[name] = append(times[name], time.Since(start)/trips)
		}
	}
	median := func(name string) time.Duration {
		slices.Sort(times[name])
		return times[name][rounds/2]
	}
	direct, bare, gate := median("direct"), median("copy"), median("gate")
	t.Logf("round trip: direct %v, copying proxy %v, gate %v: %.2fx the copying proxy", direct, bare, gate, float64(gate)/float64(bare))
	if gate > bare*3/2 {
		t.Errorf("a round trip through the gate takes %v; want at most 1.5 times the copying proxy's %v", gate, bare)
	}
}

// In steady state a message and its receipt pass without an allocation.
func TestForwardingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget at random under the race detector")
	}
	direct, stop := loopback(answerRaw)
	defer stop()
	gated, stopGate := loopback(limited(t, direct).ServeConn)
	defer stopGate()
	r := newRoute(t, gated)
	defer r.conn.Close()
	r.trips(t, 100)
	const trips = 5000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.trips(t, trips)
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > trips/100 {
		t.Errorf("%d allocations for %d messages; want none per message", n, trips)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	r := routes(b)
	for _, name := range []string{"direct", "copy", "gate"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := r[name].trip(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPipelined has 64 messages on their way at a time.
func BenchmarkPipelined(b *testing.B) {
	r := routes(b)
	for _, name := range []string{"direct", "copy", "gate"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			burst := slices.Repeat(r[name].send, 64)
			for b.Loop() {
				if _, err := r[name].conn.Write(burst); err != nil {
					b.Fatal(err)
				}
				for range 64 {
					if err := r[name].read(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
