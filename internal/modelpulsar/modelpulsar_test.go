package modelpulsar_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/limiter"
)

// wire connects to a server in memory; stop waits for its goroutines.
func wire(ctx context.Context, handle func(context.Context, net.Conn)) (dial func(context.Context, string) (net.Conn, error), stop func()) {
	var wg sync.WaitGroup
	return func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		wg.Go(func() { handle(ctx, far) })
		return near, nil
	}, wg.Wait
}

// The broker serves exactly workers/serviceTime messages per second, whatever is
// offered, and answers each producer in order.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := modelpulsar.New(modelpulsar.Options{Workers: 4, ServiceTime: 10 * time.Millisecond, URL: "pulsar://b:1"})
		dial, stop := wire(t.Context(), b.ServeConn)
		c, err := pulsarproducer.Connect(t.Context(), "b:1", pulsarproducer.Options{Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		out, err := offerAll(ctx, c, []tenant{{Topic: "t", Rate: 2000, Timeout: time.Minute, MaxPending: 100}})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		stop()
		if n := out[0].Published; n < 790 || n > 910 {
			t.Errorf("%d messages in 2 s and the rest of the queue; want about 4/10ms = 400 per second and up to 100", n)
		}
		if out[0].P50 < 200*time.Millisecond || out[0].P50 > 280*time.Millisecond {
			t.Errorf("median wait %v; want about 100 pending / 400 per second", out[0].P50)
		}
	})
}

// overload offers 250 + 2000 messages per second to a broker that serves 1000,
// through a gate with the given limits.
func overload(t *testing.T, limits pulsargate.Limits) (well, hog outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := modelpulsar.New(modelpulsar.Options{Workers: 10, ServiceTime: 10 * time.Millisecond, URL: "pulsar://b:1"})
		dialBroker, stopBroker := wire(t.Context(), b.ServeConn)
		gate, err := pulsargate.New(
			limiter.New("queue", &limiter.Policy{Mode: limiter.Off}, limiter.Options{}),
			pulsargate.Options{Backend: "b:1", Dial: dialBroker, Limits: limits},
		)
		if err != nil {
			t.Fatal(err)
		}
		dial, stop := wire(t.Context(), gate.ServeConn)
		c, err := pulsarproducer.Connect(t.Context(), "gate:1", pulsarproducer.Options{Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		out, err := offerAll(ctx, c, []tenant{
			{Topic: "well-behaved", Rate: 250, Timeout: 500 * time.Millisecond},
			{Topic: "hog", Rate: 2000, Timeout: 500 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		stop()
		stopBroker()
		well, hog = out[0], out[1]
	})
	return well, hog
}

// The demo's claim: without limits a hog takes the whole broker down with it;
// with a limit on topics the well-behaved tenant on the same connection does not
// notice, and the hog is told why instead of timing out.
func TestGateOffAgainstGateOn(t *testing.T) {
	well, hog := overload(t, pulsargate.Limits{MaxPending: 100_000})
	t.Logf("off: %+v\n     %+v", well, hog)
	if well.Published > well.Offered/2 {
		t.Errorf("without limits %d of %d messages of the well-behaved tenant were published; want a collapse", well.Published, well.Offered)
	}
	well, hog = overload(t, pulsargate.Limits{Topic: topics.PublishRate{Messages: 600, BurstSeconds: 0.2}})
	t.Logf("on: %+v\n    %+v", well, hog)
	if well.Published != well.Offered || well.P99 > 100*time.Millisecond {
		t.Errorf("with the gate %d of %d were published, p99 %v; want all, within 100 ms", well.Published, well.Offered, well.P99)
	}
	if hog.Published < 10*550 || hog.TimedOut > hog.Offered/100 {
		t.Errorf("the hog published %d of %d, %d timed out; want its 600 per second and an early answer for the rest", hog.Published, hog.Offered, hog.TimedOut)
	}
}
