package pulsargate_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// Everything that the gate does not understand passes byte for byte, in both
// directions, whatever its size; so do messages and their checksums.
func TestUnknownPassesUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{}, off(), unaware())
		p.client.open(1, "t")
		synctest.Wait()
		before := [2]int{len(p.client.all(0)), len(p.broker.all(0))}
		frames := [][]byte{
			pulsarwire.AppendFrame(nil, 555, []byte("future")),
			pulsarwire.AppendFrame(nil, pulsarwire.TypePing, nil),
			sendFrame(1, 0, 10),
			sendFrame(1, 1, 3<<20), // larger than any buffer: streamed
			pulsarwire.AppendFrame(nil, 33, make([]byte, 200<<10)),
			sendFrame(9, 0, 5), // of a producer that nobody opened: the broker's business
		}
		for _, f := range frames {
			p.client.write(f)
			p.broker.write(f)
		}
		synctest.Wait()
		for i, side := range [2]*peer{p.client, p.broker} {
			got := side.all(0)[before[i]:]
			if len(got) != len(frames) {
				t.Fatalf("side %d got %d frames; want %d", i, len(got), len(frames))
			}
			for j, f := range frames {
				if !bytes.Equal(got[j].raw, f) {
					t.Errorf("side %d: frame %d of %d bytes arrived changed", i, j, len(f))
				}
			}
		}
	})
}

// The gate takes out of CONNECT what was meant for it, and keeps CONNECTED from
// promising more than the gate lets through.
func TestHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{MaxMessageSize: 1 << 20}, off(), aware())
		synctest.Wait()
		hello, err := pulsarwire.DecodeConnect(p.broker.all(pulsarwire.TypeConnect)[0].Body)
		if err != nil || hello.Throttling || hello.ClientVersion != "test" {
			t.Errorf("the broker got %+v, %v; want the client's CONNECT without the flag", hello, err)
		}
		connected, err := pulsarwire.DecodeConnected(p.client.all(pulsarwire.TypeConnected)[0].Body)
		if err != nil || connected.MaxMessageSize != 1<<20 || connected.ServerVersion != "test" {
			t.Errorf("the client got %+v, %v; want max_message_size 1 MiB", connected, err)
		}
	})
}

func TestLookupAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		brokers []string
		url     string
		want    pulsarwire.LookupResponse
	}{
		"backend": {nil, "pulsar://broker:6650", pulsarwire.LookupResponse{
			BrokerURL: "pulsar://broker:6650", BrokerURLTLS: "pulsar+ssl://broker:6650",
			Response: pulsarwire.LookupConnect, RequestID: 3, Authoritative: true, ThroughServiceURL: true,
		}},
		"wildcard": {[]string{"*.pulsar.svc:*"}, "pulsar://b-1.pulsar.svc:6651", pulsarwire.LookupResponse{
			BrokerURL: "pulsar://b-1.pulsar.svc:6651", BrokerURLTLS: "pulsar+ssl://b-1.pulsar.svc:6651",
			Response: pulsarwire.LookupConnect, RequestID: 3, Authoritative: true, ThroughServiceURL: true,
		}},
		"outside": {[]string{"*.pulsar.svc:6650"}, "pulsar://evilpulsar.svc:6650", pulsarwire.LookupResponse{
			Response: pulsarwire.LookupFailed, RequestID: 3, Code: pulsarwire.NotAllowedError,
			Message: "admitd: broker evilpulsar.svc:6650 is not on the gate's list of brokers",
		}},
		"wrong port": {[]string{"b:6650"}, "pulsar://b:22", pulsarwire.LookupResponse{
			Response: pulsarwire.LookupFailed, RequestID: 3, Code: pulsarwire.NotAllowedError,
			Message: "admitd: broker b:22 is not on the gate's list of brokers",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, pulsargate.Options{Brokers: tc.brokers}, off(), unaware())
				p.broker.command(pulsarwire.TypeLookupResponse, pulsarwire.LookupResponse{
					BrokerURL: tc.url, Response: pulsarwire.LookupConnect, RequestID: 3, Authoritative: true,
				}.Append(nil))
				synctest.Wait()
				got, err := pulsarwire.DecodeLookupResponse(p.client.all(pulsarwire.TypeLookupResponse)[0].Body)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("answer (-want +got):\n%s", d)
				}
			})
		})
	}
}

// A client reaches the broker that it names only when the list has it; otherwise
// it is told, and nothing is dialed.
func TestProxyToBroker(t *testing.T) {
	for name, tc := range map[string]struct {
		broker string
		dial   bool
	}{
		"listed":     {"b-1:6650", true},
		"not listed": {"169.254.169.254:80", false},
		"no port":    {"b-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialed := ""
				s, err := pulsargate.New(limiter.New("q", off(), limiter.Options{}), pulsargate.Options{
					Backend: "broker:6650", Brokers: []string{"b-1:6650"},
					Dial: func(_ context.Context, address string) (net.Conn, error) {
						dialed = address
						return nil, errors.New("not today")
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				near, far := net.Pipe()
				go s.ServeConn(t.Context(), far)
				p := newPeer(t, near)
				hello := unaware()
				hello.ProxyToBroker = tc.broker
				p.command(pulsarwire.TypeConnect, hello.Append(nil))
				<-p.done
				if (dialed != "") != tc.dial {
					t.Errorf("dialed %q", dialed)
				}
				e, err := pulsarwire.DecodeError(p.all(pulsarwire.TypeError)[0].Body)
				want := pulsarwire.NotAllowedError
				if tc.dial {
					want = pulsarwire.ServiceNotReady
				}
				if err != nil || e.Code != want {
					t.Errorf("client got %+v, %v; want code %d", e, err, want)
				}
			})
		})
	}
}

// TOPIC_MIGRATED would lead clients around the gate, and so would two commands
// of Pulsar 5, which passed as unknown ones.
func TestMigrationIsSuppressed(t *testing.T) {
	for _, kind := range []pulsarwire.Type{
		pulsarwire.TypeTopicMigrated, pulsarwire.TypeScalableTopicUpdate, pulsarwire.TypeTCAssignmentsUpdate,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := play(t, pulsargate.Options{}, off(), unaware())
			p.broker.command(kind, []byte{8, 1})
			p.broker.command(pulsarwire.TypePing, nil)
			synctest.Wait()
			if n := len(p.client.all(kind)); n != 0 {
				t.Errorf("command %d reached the client", kind)
			}
			if n := len(p.client.all(pulsarwire.TypePing)); n != 1 {
				t.Errorf("what came behind command %d did not", kind)
			}
		})
	}
}

// A broker of Pulsar 5 promises scalable topics and the discovery of transaction
// coordinators, and then names addresses that the gate does not rewrite.
func TestPulsar5IsNotPromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{}, off(), unaware())
		flags := []byte{2 << 3, 1, 8 << 3, 1, 9 << 3, 1} // the first is an older one
		body := append(pulsarwire.Connected{ServerVersion: "5", MaxMessageSize: 1000}.Append(nil), 4<<3|2, byte(len(flags)))
		p.broker.command(pulsarwire.TypeConnected, append(body, flags...))
		synctest.Wait()
		all := p.client.all(pulsarwire.TypeConnected)
		want := append(pulsarwire.Connected{ServerVersion: "5", MaxMessageSize: 1000}.Append(nil), 4<<3|2, 2, 2<<3, 1)
		if got := all[len(all)-1].Body; !bytes.Equal(got, want) {
			t.Errorf("the client got % x; want % x", got, want)
		}
	})
}

// So would the address of a broker that a consumer is handed to.
func TestConsumersStayOnTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{}, off(), unaware())
		p.client.open(1, "t")
		p.broker.command(pulsarwire.TypeCloseConsumer, pulsarwire.CloseProducer{
			ProducerID: 1, RequestID: 2, AssignedURL: "pulsar://elsewhere:6650", AssignedTLS: "pulsar+ssl://elsewhere:6651",
		}.Append(nil))
		synctest.Wait()
		want := pulsarwire.CloseProducer{ProducerID: 1, RequestID: 2}.Append(nil)
		got := p.client.all(pulsarwire.TypeCloseConsumer)
		if len(got) != 1 || !bytes.Equal(got[0].Body, want) {
			t.Errorf("the client got %v; want the close without addresses", got)
		}
		if n := p.server.Status().Producers; n != 1 {
			t.Errorf("%d producers; want the one whose id is the consumer's too", n)
		}
	})
}

// A new producer is refused, in the protocol's own form, when the connection is
// past its bounds; what exists goes on.
func TestProducersAreRefusedPastTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{Limits: pulsargate.Limits{MaxPending: 2}}, off(), unaware())
		p.client.open(1, "t")
		p.client.write(sendFrame(1, 0, 1))
		p.client.write(sendFrame(1, 1, 1))
		p.client.open(2, "u")
		synctest.Wait()
		errs := p.client.all(pulsarwire.TypeError)
		if len(errs) != 1 {
			t.Fatalf("%d ERROR; want 1", len(errs))
		}
		got, _ := pulsarwire.DecodeError(errs[0].Body)
		want := pulsarwire.Error{
			RequestID: 102, Code: pulsarwire.TooManyRequests, Message: "admitd: too many pending messages on this connection",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("refusal (-want +got):\n%s", d)
		}
		if n := len(p.broker.all(pulsarwire.TypeProducer)); n != 1 {
			t.Errorf("%d PRODUCER reached the broker; want 1", n)
		}
		if n := len(p.client.all(pulsarwire.TypeSendError)); n != 0 {
			t.Error("a SEND_ERROR was sent")
		}
	})
}

// Latency runs from the SEND to its receipt; errors that speak of overload count
// as dropped; receipts for nothing cost nothing.
func TestReceiptsFeedTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := &recorder{}
		p := play(t, pulsargate.Options{}, &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return limit },
		}}, unaware())
		p.client.open(1, "t")
		p.client.write(sendFrame(1, 0, 1))
		p.client.write(sendFrame(1, 1, 1))
		p.client.write(sendFrame(1, 2, 1))
		time.Sleep(30 * time.Millisecond)
		p.broker.write(receipt(1, 0))
		time.Sleep(10 * time.Millisecond)
		p.broker.command(pulsarwire.TypeSendError, pulsarwire.SendError{
			ProducerID: 1, SequenceID: 1, Code: pulsarwire.TooManyRequests,
		}.Append(nil))
		p.broker.write(receipt(1, 77))
		p.broker.write(receipt(8, 0))
		synctest.Wait()
		want := []sample{{30 * time.Millisecond, false}, {40 * time.Millisecond, true}}
		if d := cmp.Diff(want, limit.samples, cmp.AllowUnexported(sample{})); d != "" {
			t.Errorf("samples (-want +got):\n%s", d)
		}
		if n := p.events.counts()[pulsargate.EventSendReceiptUnknown]; n != 2 {
			t.Errorf("%d unknown receipts counted; want 2", n)
		}
	})
}

// The time that a client takes for a large message is not the broker's.
func TestSlowClientsDoNotMakeTheBrokerLookSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := &recorder{}
		p := play(t, pulsargate.Options{}, &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return limit },
		}}, unaware())
		p.client.open(1, "t")
		frame := sendFrame(1, 0, 1<<20)
		p.client.write(frame[:100<<10])
		time.Sleep(10 * time.Second)
		p.client.write(frame[100<<10:])
		time.Sleep(30 * time.Millisecond)
		p.broker.write(receipt(1, 0))
		synctest.Wait()
		if d := cmp.Diff([]sample{{30 * time.Millisecond, false}}, limit.samples, cmp.AllowUnexported(sample{})); d != "" {
			t.Errorf("samples (-want +got):\n%s", d)
		}
	})
}

// sample is what a limit was told.
type sample struct {
	latency time.Duration
	dropped bool
}

// recorder is a limit that remembers; it is used by one goroutine at a time.
type recorder struct{ samples []sample }

func (*recorder) Current() int { return 100 }

func (r *recorder) Observe(_ int64, latency time.Duration, _ int, dropped bool) {
	r.samples = append(r.samples, sample{latency, dropped})
}

// A drain forwards nothing more, waits for the receipts of what was forwarded,
// and closes.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		p.client.publish(1, 25, 10)
		p.broker.store(1, 19)
		p.drain()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if p.client.closed() {
			t.Fatal("closed before the last receipt")
		}
		p.broker.write(receipt(1, 19))
		p.ended()
		if n := len(p.client.all(pulsarwire.TypeSendReceipt)); n != 20 {
			t.Errorf("the client got %d receipts; want 20", n)
		}
		if n := len(p.broker.all(pulsarwire.TypeSend)); n != 20 {
			t.Errorf("the broker got %d messages; want 20: what was held stays with the client", n)
		}
	})
}

// A held message that waits in the limiter's queue leaves it when a drain begins,
// and takes no permit that others could have.
func TestDrainLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &limiter.Policy{Default: limiter.PartitionPolicy{
			NewLimit: func() limiter.Limit { return fixed(2) }, QueueDepth: 10, MaxWait: time.Minute,
		}}
		p := play(t, pulsargate.Options{}, policy, unaware())
		p.client.open(1, "t")
		p.client.publish(1, 3, 10)
		p.drain()
		time.Sleep(2 * time.Second)
		p.broker.write(receipt(1, 0))
		synctest.Wait()
		permit, err := p.gate.TryAdmit(p.gate.Now(), limiter.Request{Key: "persistent://public/default/t"})
		if err != nil {
			t.Errorf("with one of two messages in flight: %v", err)
		}
		permit.End(limiter.Ignored)
		p.broker.write(receipt(1, 1))
		p.ended()
	})
}

// A message that the broker has half of is completed before the drain ends: its
// receipt would never come.
func TestDrainCompletesWhatWasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, pulsargate.Options{}, off(), unaware())
		p.client.open(1, "t")
		frame := sendFrame(1, 7, 1<<20)
		p.client.write(frame[:100<<10])
		synctest.Wait()
		p.drain()
		p.client.write(frame[100<<10:])
		synctest.Wait()
		if got := p.broker.all(pulsarwire.TypeSend); len(got) != 1 || !bytes.Equal(got[0].raw, frame) {
			t.Fatalf("%d messages arrived; want the one that was begun, as it is", len(got))
		}
		p.broker.write(receipt(1, 7))
		p.ended()
		if n := len(p.client.all(pulsarwire.TypeSendReceipt)); n != 1 {
			t.Errorf("the client got %d receipts; want 1", n)
		}
	})
}

// When the client leaves in the middle of it instead, nothing that was held may
// follow: the broker would read it as the rest of the message.
func TestNothingFollowsHalfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, slowTopic(pulsargate.Hold), off(), unaware())
		p.client.open(1, "slow")
		p.client.open(2, "t")
		p.client.publish(1, 21, 10)
		frame := sendFrame(2, 0, 1<<20)
		p.client.write(frame[:100<<10])
		time.Sleep(time.Second) // the held message waits for the end of the frame
		p.drain()
		p.client.conn.Close()
		p.ended()
		if half := p.broker.partial(); !bytes.Equal(half, frame[:100<<10]) {
			t.Errorf("%d bytes after the last whole frame; want the %d of the message", len(half), 100<<10)
		}
	})
}
