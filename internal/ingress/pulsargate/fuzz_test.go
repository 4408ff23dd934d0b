package pulsargate_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// fuzzed runs the gate between two pipes, writes in from one side, and returns
// what came out at the other.
func fuzzed(t *testing.T, in []byte, fromBroker bool) []byte {
	t.Helper()
	clientEnd, gateClient := net.Pipe()
	brokerEnd, gateBroker := net.Pipe()
	s, err := pulsargate.New(limiter.New("q", off(), limiter.Options{}), pulsargate.Options{
		Backend: "b:1", MaxMessageSize: 64 << 10, CancelAbandoned: true,
		Dial:   func(context.Context, string) (net.Conn, error) { return gateBroker, nil },
		Limits: pulsargate.Limits{Topic: topics.PublishRate{Messages: 1e6}, MaxPending: 1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.ServeConn(t.Context(), gateClient)
	}()
	hello := pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, unaware().Append(nil))
	clientEnd.Write(hello)
	io.ReadFull(brokerEnd, make([]byte, len(hello)))

	from, to := clientEnd, brokerEnd
	if fromBroker {
		from, to = brokerEnd, clientEnd
	}
	var back bytes.Buffer // answers of the gate itself
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		io.Copy(&back, from)
	}()
	go func() {
		from.Write(in)
		from.Close()
	}()
	to.SetReadDeadline(time.Now().Add(10 * time.Second))
	out, err := io.ReadAll(to)
	if err != nil {
		t.Fatalf("the gate hangs: %v", err)
	}
	to.Close()
	<-served
	<-answers
	if st := s.Status(); st.HeldBytes != 0 || st.HeldFrames != 0 || st.Producers != 0 || st.Connections != 0 {
		t.Fatalf("left behind: %+v", st)
	}
	return out
}

// FuzzClient: whatever a client sends, the gate neither panics nor hangs nor
// leaks, and what it forwards is what the client sent, as long as that was not
// meant for the gate.
func FuzzClient(f *testing.F) {
	producer := pulsarwire.AppendFrame(nil, pulsarwire.TypeProducer, pulsarwire.Producer{Topic: "t", ProducerID: 1}.Append(nil))
	f.Add(append(bytes.Clone(producer), sendFrame(1, 1, 20)...))
	f.Add(append(bytes.Clone(producer), sendFrame(1, 1, 50<<10)...))
	f.Add(pulsarwire.AppendFrame(nil, pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: 1}.Append(nil)))
	f.Add(raw(100<<20, 10))
	f.Add(raw(8, 4, 8, 6, 50, 0))
	f.Fuzz(func(t *testing.T, in []byte) {
		if out := fuzzed(t, in, false); !bytes.HasPrefix(in, out) {
			t.Fatalf("forwarded %d bytes that are no prefix of the %d received", len(out), len(in))
		}
	})
}

// FuzzBroker: the same for a broker; its lookups and handshakes are rewritten, so
// only what is not is compared.
func FuzzBroker(f *testing.F) {
	f.Add(receipt(1, 1))
	f.Add(pulsarwire.AppendFrame(nil, pulsarwire.TypeLookupResponse, pulsarwire.LookupResponse{
		BrokerURL: "pulsar://b:1", Response: 1,
	}.Append(nil)))
	f.Add(pulsarwire.AppendFrame(nil, pulsarwire.TypeConnected, pulsarwire.Connected{MaxMessageSize: 1 << 30}.Append(nil)))
	f.Add(pulsarwire.AppendFrame(nil, pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{AssignedURL: "x"}.Append(nil)))
	f.Add(raw(300<<20, 10))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := fuzzed(t, in, true)
		frames := pulsarwire.NewReader(bytes.NewReader(out), 1<<30)
		for {
			frame, err := frames.Next()
			if err != nil {
				break
			}
			if frame.Type == pulsarwire.TypeTopicMigrated {
				t.Fatal("TOPIC_MIGRATED reached the client")
			}
			if frame.Type != pulsarwire.TypeLookupResponse {
				continue
			}
			l, err := pulsarwire.DecodeLookupResponse(frame.Body)
			if err == nil && l.BrokerURL != "" && l.Response != pulsarwire.LookupFailed && l.BrokerURL != "pulsar://b:1" {
				t.Fatalf("the client is led to %q", l.BrokerURL)
			}
		}
	})
}
