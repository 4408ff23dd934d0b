package pulsargate_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// narrow is a policy with two permits.
func narrow() *limiter.Policy {
	return &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(2) }}}
}

// work returns the permits held.
func (p *pair) work() int { return p.gate.Status().InFlight }

// A message that the broker has is work there, whether or not its client is
// still connected: its permit was given to somebody else while the broker worked
// on. Now it is held until the receipt, or until nobody can wait for that any
// more; with CancelAbandoned the broker's connection is closed instead.
func TestPermitsOutliveTheirClients(t *testing.T) {
	for name, tc := range map[string]struct {
		cancel  bool
		receipt time.Duration // when it comes; 0 = never
		want    time.Duration // when the permit is free
	}{
		"receipt":    {false, 7 * time.Second, 7 * time.Second},
		"no receipt": {false, 0, 30 * time.Second},
		"cancel":     {true, 7 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, pulsargate.Options{CancelAbandoned: tc.cancel}, narrow(), unaware())
				p.client.open(1, "t")
				p.client.write(sendFrame(1, 0, 1))
				p.client.write(sendFrame(1, 1, 1))
				p.client.write(sendFrame(1, 2, 1)) // held: no permit is left
				synctest.Wait()
				start := time.Now()
				p.client.conn.Close()
				synctest.Wait()
				if !tc.cancel {
					p.broker.command(pulsarwire.TypePing, nil) // answered, or brokers would give up
				}
				synctest.Wait()
				if s := p.server.Status(); s.HeldFrames != 0 {
					t.Errorf("%d frames are held for a client that left", s.HeldFrames)
				}
				if tc.receipt > 0 && !tc.cancel {
					time.Sleep(tc.receipt / 2)
					p.broker.write(receipt(1, 0))
					synctest.Wait()
					if n := p.work(); n != 1 {
						t.Errorf("%d permits are held after one of two receipts; want 1", n)
					}
					time.Sleep(tc.receipt - tc.receipt/2)
					p.broker.write(receipt(1, 1))
				}
				p.ended()
				if took := time.Since(start); took != tc.want {
					t.Errorf("the permits were free after %v; want %v", took, tc.want)
				}
				if n := p.work(); n != 0 {
					t.Errorf("%d permits are held in the end", n)
				}
				if n := len(p.broker.all(pulsarwire.TypePong)); n != 1 && !tc.cancel {
					t.Errorf("%d PONG while the broker works for nobody; want 1", n)
				}
				if n := len(p.broker.all(pulsarwire.TypeSend)); n != 2 {
					t.Errorf("%d messages reached the broker; want the 2 from before", n)
				}
			})
		})
	}
}

// A client that does not read its receipts keeps its permits no longer than the
// stall timeout and what the broker needs.
func TestUnreadReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{StallTimeout: 10 * time.Second}, narrow(), unaware())
		p.client.open(1, "t")
		synctest.Wait()
		_ = p.client.conn.SetReadDeadline(time.Unix(1, 0)) // reads no more
		p.client.write(sendFrame(1, 0, 1))
		p.client.write(sendFrame(1, 1, 1))
		start := time.Now()
		go func() {
			p.broker.write(receipt(1, 0))
			p.broker.write(receipt(1, 1))
		}()
		synctest.Wait()
		if n := p.work(); n != 1 {
			t.Errorf("%d permits are held behind a receipt that is not read; want 1", n)
		}
		p.ended()
		if took := time.Since(start); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("given up after %v; want 10s, and little more", took)
		}
		if n := p.work(); n != 0 {
			t.Errorf("%d permits are held in the end", n)
		}
	})
}

// A connection that is paused was not looked at, so that a client that left was
// noticed when its pause was over: with a broker that stores nothing, never.
func TestPausedClientsMayLeave(t *testing.T) {
	if testing.Short() {
		t.Skip("over sockets, of which alone it can be seen")
	}
	dial, stopBroker := loopback(func(ctx context.Context, c net.Conn) {
		defer context.AfterFunc(ctx, func() { c.Close() })()
		_, _ = io.Copy(io.Discard, c) // no receipts
	})
	s, err := pulsargate.New(limiter.New("q", off(), limiter.Options{}), pulsargate.Options{
		Backend: "b:1", Dial: dial, CancelAbandoned: true, Limits: pulsargate.Limits{MaxPending: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	connect, stopGate := loopback(func(ctx context.Context, c net.Conn) {
		s.ServeConn(ctx, c)
		close(served)
	})
	defer stopGate()
	defer stopBroker() // which ends what is still served
	c, err := connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	hello := pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, unaware().Append(nil))
	open := pulsarwire.AppendFrame(hello, pulsarwire.TypeProducer, pulsarwire.Producer{Topic: "t", ProducerID: 1}.Append(nil))
	_, err = c.Write(append(append(open, sendFrame(1, 0, 1)...), sendFrame(1, 1, 1)...))
	for i := 0; err == nil && s.Status().Paused == 0; i++ {
		if i == 1000 {
			t.Fatal("the connection is not paused")
		}
		<-time.After(10 * time.Millisecond)
	}
	c.Close()
	select {
	case <-served:
	case <-time.After(30 * time.Second):
		t.Error("a client that left is still served")
	}
}

// A drain ends a pause, and waits for what was forwarded before it.
func TestDrainOfAPausedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{MaxPending: 2}}, off(), unaware())
		p.client.open(1, "t")
		p.client.publish(1, 3, 10) // the last one is not taken
		synctest.Wait()
		if s := p.server.Status(); s.Paused != 1 {
			t.Fatalf("%+v; want a pause", s)
		}
		p.drain()
		p.broker.store(1, 1)
		synctest.Wait()
		if p.client.closed() {
			t.Fatal("closed before the last receipt")
		}
		p.broker.write(receipt(1, 1))
		p.ended()
		if n := len(p.client.all(pulsarwire.TypeSendReceipt)); n != 2 {
			t.Errorf("the client got %d receipts; want 2", n)
		}
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 2 {
			t.Errorf("the broker got %d messages; want the 2 from before", n)
		}
	})
}
