package pulsargate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// raw returns a frame with lengths that are lies.
func raw(total, command uint32, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, total)
	return append(binary.BigEndian.AppendUint32(b, command), rest...)
}

// A frame that cannot be ends its own connection at once, without waiting for
// the bytes that it announces.
func TestImpossibleFramesEndTheConnection(t *testing.T) {
	for name, frame := range map[string][]byte{
		"oversized":         raw(100<<20, 10),
		"command too large": raw(4<<20, 2<<20, make([]byte, 64)...),
		"command overruns":  raw(20, 40),
		"empty command":     raw(4, 0),
		"not a command":     raw(8, 4, 0xff, 0xff, 0xff, 0xff),
		"second CONNECT":    pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, aware().Append(nil)),
		"two types":         raw(8, 4, 8, 18, 8, 6),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, pulsargate.Options{}, off(), unaware())
				p.client.open(1, "t")
				_, _ = p.client.conn.Write(frame) // the gate may close before it has read all
				synctest.Wait()
				if !p.client.closed() || !p.broker.closed() {
					t.Error("the connection is still open")
				}
				if n := p.events.counts()[pulsargate.EventProtocolError]; n != 1 {
					t.Errorf("%d protocol errors counted; want 1", n)
				}
			})
		})
	}
}

// A client that begins TLS with an ingress that has none reaches no broker, and the
// log says why: it said only that a frame of 369 MB is too large.
func TestTLSWithoutTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		near, far := net.Pipe()
		s, err := pulsargate.New(limiter.New("q", off(), limiter.Options{}), pulsargate.Options{
			Backend: "b:1", Log: slog.New(slog.NewTextHandler(&log, nil)),
			Dial: func(context.Context, string) (net.Conn, error) {
				t.Error("the broker was dialled")
				return nil, net.ErrClosed
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = near.Write([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}) }()
		s.ServeConn(t.Context(), far)
		_ = near.Close()
		if !strings.Contains(log.String(), "begins TLS") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

// A peer that stops in the middle of a frame, or does not read, is given up
// after the stall timeout; one that is merely silent is not.
func TestStallingPeersAreGivenUp(t *testing.T) {
	stall := pulsargate.Options{StallTimeout: 10 * time.Second}
	for name, tc := range map[string]struct {
		misbehave func(p *pair)
		closed    bool
	}{
		"silent":       {func(*pair) {}, false},
		"half a frame": {func(p *pair) { p.client.write(sendFrame(1, 0, 100)[:40]) }, true},
		"half a large frame": {func(p *pair) {
			p.client.write(sendFrame(1, 0, 1<<20)[:100<<10])
		}, true},
		"half a frame of the broker": {func(p *pair) { p.broker.write(receipt(1, 1)[:9]) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, stall, off(), unaware())
				p.client.open(1, "t")
				tc.misbehave(p)
				time.Sleep(9 * time.Second)
				synctest.Wait()
				if p.client.closed() {
					t.Fatal("closed before the stall timeout")
				}
				time.Sleep(12 * time.Second)
				synctest.Wait()
				if p.client.closed() != tc.closed {
					t.Errorf("closed = %v; want %v", p.client.closed(), tc.closed)
				}
				if n := p.events.counts()[pulsargate.EventStalled]; (n == 1) != tc.closed {
					t.Errorf("%d stalls counted", n)
				}
			})
		})
	}
}

// A client that never reads blocks what is written to it, no more, and is given
// up; so is one that never says CONNECT.
func TestDeafAndMuteClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		brokerEnd, gateBroker := net.Pipe()
		o := slowTopic(pulsargate.Auto)
		o.Backend, o.StallTimeout = "b:1", 10*time.Second
		o.Dial = func(context.Context, string) (net.Conn, error) { return gateBroker, nil }
		s, err := pulsargate.New(limiter.New("q", off(), limiter.Options{}), o)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.ServeConn(t.Context(), far)
		}()
		broker := newPeer(t, brokerEnd)
		near.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, aware().Append(nil)))
		near.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeProducer, pulsarwire.Producer{Topic: "slow", ProducerID: 1}.Append(nil)))
		start := time.Now()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			for i := uint64(0); ; i++ {
				if _, err := near.Write(sendFrame(1, i, 1000)); err != nil {
					return
				}
			}
		}()
		<-closed
		if d := time.Since(start); d < 10*time.Second || d > 21*time.Second {
			t.Errorf("given up after %v; want 10s to 20s", d)
		}
		<-served
		if n := len(broker.all(pulsarwire.TypeSend)); n != 20 {
			t.Errorf("%d messages passed; want 20", n)
		}

		mute, gateMute := net.Pipe()
		start = time.Now()
		s.ServeConn(t.Context(), gateMute)
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("a client without CONNECT was given up after %v; want 10s", d)
		}
		mute.Close()
		near.Close()
		brokerEnd.Close()
		<-broker.done
	})
}

// A client that sends a large message byte by byte does not keep its permit: a
// byte pays for as long as it may take at 64 KiB a second, and no longer.
func TestDrippingClientsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1) }}}
		p := play(t, pulsargate.Options{StallTimeout: 10 * time.Second}, policy, unaware())
		p.client.open(1, "t")
		frame := sendFrame(1, 0, 1<<20)
		p.client.write(frame[:100<<10])
		for i := range 9 {
			time.Sleep(time.Second)
			p.client.write(frame[100<<10+i:][:1])
		}
		synctest.Wait()
		if p.client.closed() {
			t.Fatal("closed before its time")
		}
		time.Sleep(3 * time.Second)
		_, _ = p.client.conn.Write([]byte{0})
		p.ended()
		if n := p.events.counts()[pulsargate.EventStalled]; n != 1 {
			t.Errorf("%d stalls counted; want 1", n)
		}
		if permit, err := p.gate.TryAdmit(p.gate.Now(), limiter.Request{Key: "persistent://public/default/t"}); err != nil {
			t.Errorf("its permit is still held: %v", err)
		} else {
			permit.End(limiter.Ignored)
		}
	})
}

// Many producers, topics and commands without end stay within their bounds.
func TestTablesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{
			MaxProducers: 10, MaxTopics: 5, Topic: topics.PublishRate{Messages: 1},
		}}, off(), aware())
		for i := range uint64(100) {
			p.client.open(i, "topic-"+string(rune('a'+i)))
			p.client.command(pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: i % 10, RequestID: 1000 + i}.Append(nil))
			p.client.command(pulsarwire.TypeThrottleProducerReceipt, pulsarwire.AppendRequestID(nil, i))
			p.broker.write(receipt(i, i))
		}
		synctest.Wait()
		if s := p.server.Status(); s.Producers != 10 || s.Topics != 5 {
			t.Errorf("Status = %+v; want 10 producers, 5 topics", s)
		}
	})
}

// The short forms of a topic and its full name are one topic: they cannot be
// used to evade its limit.
func TestSpellingsOfATopicShareItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{Topic: topics.PublishRate{Messages: 1}}}, off(), unaware())
		for i, topic := range []string{"t", "public/default/t", "persistent://public/default/t"} {
			p.client.open(uint64(i), topic)
			p.client.write(sendFrame(uint64(i), 0, 1))
		}
		synctest.Wait()
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 1 {
			t.Errorf("%d messages passed; want 1: it is one topic", n)
		}
	})
}

// Frames of every size around those of the buffers, cut into pieces of every
// kind, arrive whole and in order.
func TestFramesInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{MaxPending: 1000}}, off(), unaware())
		p.client.open(1, "t")
		var stream []byte
		n := uint64(0)
		for _, size := range []int{0, 1, 4000, 4050, 4096, 5000, 32000, 32650, 32768, 33000, 70000, 10} {
			for range 3 {
				stream = append(stream, sendFrame(1, n, size)...)
				n++
			}
		}
		sent := stream
		for piece := 1; len(sent) > 0; piece = piece*7%4093 + 1 {
			k := min(piece, len(sent))
			p.client.write(sent[:k])
			sent = sent[k:]
		}
		synctest.Wait()
		if got := p.broker.published(); !bytes.Equal(got, stream) {
			t.Errorf("%d bytes arrived; want the %d that were sent", len(got), len(stream))
		}
	})
}

// The same when they have to be held.
func TestHeldFramesInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		var stream []byte
		for i := range uint64(60) {
			stream = append(stream, sendFrame(1, i, int(i)*3000)...)
		}
		for sent := stream; len(sent) > 0; {
			k := min(9999, len(sent))
			p.client.write(sent[:k])
			sent = sent[k:]
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := p.broker.published(); !bytes.Equal(got, stream) {
			t.Errorf("%d bytes arrived; want the %d that were sent", len(got), len(stream))
		}
	})
}

// Half a frame that was to be held gives its room back with its connection, or
// a few such clients would leave no room for anyone.
func TestHalfAHeldFrameGivesItsRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		p.client.publish(1, 21, 10)
		p.client.write(sendFrame(1, 21, 1<<20)[:100<<10])
		synctest.Wait()
		if s := p.server.Status(); s.HeldFrames != 2 || s.HeldBytes < 1<<20 {
			t.Fatalf("%+v; want two frames held, the second in advance", s)
		}
		p.client.conn.Close()
		p.ended()
		if s := p.server.Status(); s.HeldFrames != 0 || s.HeldBytes != 0 {
			t.Errorf("after the connection the server still counts %+v", s)
		}
	})
}

// A client that gives two requests the same id cannot pass one's refusal off as
// the other's, and go on with a producer that the gate does not know.
func TestRequestsOfTheSameID(t *testing.T) {
	ask := func(p *pair, id, request uint64) {
		p.client.command(pulsarwire.TypeProducer, pulsarwire.Producer{Topic: "slow", ProducerID: id, RequestID: request}.Append(nil))
		synctest.Wait()
	}
	answer := func(p *pair, request uint64, ok bool) {
		if ok {
			p.broker.command(pulsarwire.TypeProducerSuccess, pulsarwire.ProducerSuccess{RequestID: request, Name: "p"}.Append(nil))
		} else {
			p.broker.command(pulsarwire.TypeError, pulsarwire.Error{RequestID: request, Code: 1}.Append(nil))
		}
		synctest.Wait()
	}
	for name, tc := range map[string]struct {
		play   func(p *pair)
		closed bool
	}{
		"two producers": {func(p *pair) {
			ask(p, 1, 5)
			_, _ = p.client.conn.Write(pulsarwire.AppendFrame(nil, pulsarwire.TypeProducer,
				pulsarwire.Producer{Topic: "slow", ProducerID: 2, RequestID: 5}.Append(nil)))
			synctest.Wait()
		}, true},
		"another request refused": {func(p *pair) {
			ask(p, 1, 5)
			answer(p, 5, false) // of a SUBSCRIBE, say
			answer(p, 5, true)
		}, true},
		"ready later": {func(p *pair) { // an exclusive producer gets two answers
			ask(p, 1, 5)
			answer(p, 5, true)
			answer(p, 5, true)
		}, false},
		"another id": {func(p *pair) {
			ask(p, 1, 5)
			answer(p, 5, false)
			ask(p, 1, 6)
			answer(p, 6, true)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
				tc.play(p)
				if p.client.closed() != tc.closed {
					t.Errorf("closed = %v; want %v", p.client.closed(), tc.closed)
				}
			})
		})
	}
}
