package pulsarwire_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// Every command that is written reads back as it was.
func TestCommandsReadBack(t *testing.T) {
	send := pulsarwire.Send{ProducerID: 7, SequenceID: 1 << 40, HighestSequenceID: 1<<40 + 9, NumMessages: 10}
	receipt := pulsarwire.SendReceipt{ProducerID: 7, SequenceID: 3, HighestSequenceID: 4}
	throttle := pulsarwire.ThrottleProducer{
		RequestID: 1, ProducerID: 2, Reason: pulsarwire.BrokerProduceQuotaExceeded, PauseMillis: 500,
	}
	connect := pulsarwire.Connect{ClientVersion: "x", ProtocolVersion: 19, ProxyToBroker: "b:6650", Throttling: true}
	lookup := pulsarwire.LookupResponse{
		BrokerURL: "pulsar://a:1", BrokerURLTLS: "pulsar+ssl://a:2", Response: 1, RequestID: 4,
		Authoritative: true, ThroughServiceURL: true,
	}
	for name, tc := range map[string]struct {
		body   []byte
		want   any
		decode func([]byte) (any, error)
	}{
		"send":     {send.Append(nil), send, func(b []byte) (any, error) { return pulsarwire.DecodeSend(b) }},
		"receipt":  {receipt.Append(nil), receipt, func(b []byte) (any, error) { return pulsarwire.DecodeSendReceipt(b) }},
		"throttle": {throttle.Append(nil), throttle, func(b []byte) (any, error) { return pulsarwire.DecodeThrottleProducer(b) }},
		"connect":  {connect.Append(nil), connect, func(b []byte) (any, error) { return pulsarwire.DecodeConnect(b) }},
		"lookup":   {lookup.Append(nil), lookup, func(b []byte) (any, error) { return pulsarwire.DecodeLookupResponse(b) }},
		"error": {
			pulsarwire.Error{RequestID: 3, Code: 14, Message: "m"}.Append(nil),
			pulsarwire.Error{RequestID: 3, Code: 14, Message: "m"},
			func(b []byte) (any, error) { return pulsarwire.DecodeError(b) },
		},
		"producer": {
			pulsarwire.Producer{Topic: "t", ProducerID: 1, RequestID: 2, Name: "n"}.Append(nil),
			pulsarwire.Producer{Topic: "t", ProducerID: 1, RequestID: 2, Name: "n"},
			func(b []byte) (any, error) { return pulsarwire.DecodeProducer(b) },
		},
		"send error": {
			pulsarwire.SendError{ProducerID: 1, SequenceID: 2, Code: pulsarwire.TooManyRequests, Message: "m"}.Append(nil),
			pulsarwire.SendError{ProducerID: 1, SequenceID: 2, Code: pulsarwire.TooManyRequests, Message: "m"},
			func(b []byte) (any, error) { return pulsarwire.DecodeSendError(b) },
		},
		"producer success": {
			pulsarwire.ProducerSuccess{RequestID: 1, Name: "n"}.Append(nil),
			pulsarwire.ProducerSuccess{RequestID: 1, Name: "n"},
			func(b []byte) (any, error) { return pulsarwire.DecodeProducerSuccess(b) },
		},
		"close producer": {
			pulsarwire.CloseProducer{ProducerID: 1, RequestID: 2, AssignedURL: "a", AssignedTLS: "b"}.Append(nil),
			pulsarwire.CloseProducer{ProducerID: 1, RequestID: 2, AssignedURL: "a", AssignedTLS: "b"},
			func(b []byte) (any, error) { return pulsarwire.DecodeCloseProducer(b) },
		},
		"connected": {
			pulsarwire.Connected{ServerVersion: "v", ProtocolVersion: 19, MaxMessageSize: 5}.Append(nil),
			pulsarwire.Connected{ServerVersion: "v", ProtocolVersion: 19, MaxMessageSize: 5},
			func(b []byte) (any, error) { return pulsarwire.DecodeConnected(b) },
		},
		"topic request": {
			pulsarwire.TopicRequest{Topic: "t", RequestID: 4}.Append(nil),
			pulsarwire.TopicRequest{Topic: "t", RequestID: 4},
			func(b []byte) (any, error) { return pulsarwire.DecodeTopicRequest(b) },
		},
		"failed metadata": {
			pulsarwire.PartitionedMetadata{RequestID: 4, Failed: true, Code: 6, Message: "m"}.Append(nil),
			pulsarwire.PartitionedMetadata{RequestID: 4, Failed: true, Code: 6, Message: "m"},
			func(b []byte) (any, error) { return pulsarwire.DecodePartitionedMetadata(b) },
		},
	} {
		got, err := tc.decode(tc.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s reads back differently (-want +got):\n%s", name, d)
		}
	}
}

// What is required is written also when it is zero, and what is optional is not:
// other implementations insist on the one and may misread the other.
func TestWhatIsWritten(t *testing.T) {
	for name, tc := range map[string]struct{ got, want []byte }{
		"send":     {pulsarwire.Send{NumMessages: 1}.Append(nil), []byte{1 << 3, 0, 2 << 3, 0}},
		"error":    {pulsarwire.Error{}.Append(nil), []byte{1 << 3, 0, 2 << 3, 0}},
		"throttle": {pulsarwire.ThrottleProducer{}.Append(nil), []byte{1 << 3, 0, 2 << 3, 0, 4 << 3, 0, 5 << 3, 0}},
		"lookup":   {pulsarwire.LookupResponse{}.Append(nil), []byte{3 << 3, 0, 4 << 3, 0}},
		"receipt":  {pulsarwire.SendReceipt{}.Append(nil), []byte{1 << 3, 0, 2 << 3, 0, 3<<3 | 2, 4, 1 << 3, 0, 2 << 3, 0}},
	} {
		if !bytes.Equal(tc.got, tc.want) {
			t.Errorf("%s: %x; want %x", name, tc.got, tc.want)
		}
	}
}

// What is meant for the gate leaves CONNECT; every other field stays, known or not.
func TestStripConnect(t *testing.T) {
	body := pulsarwire.Connect{ClientVersion: "c", ProtocolVersion: 19, ProxyToBroker: "b:1", Throttling: true}.Append(nil)
	body = protowire.AppendString(protowire.AppendTag(body, 900, protowire.BytesType), "future")
	flags := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	body = protowire.AppendBytes(protowire.AppendTag(body, 10, protowire.BytesType), flags)

	out, err := pulsarwire.StripConnect(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pulsarwire.DecodeConnect(out)
	if err != nil {
		t.Fatal(err)
	}
	want := pulsarwire.Connect{ClientVersion: "c", ProtocolVersion: 19}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("stripped CONNECT (-want +got):\n%s", d)
	}
	for _, keep := range [][]byte{[]byte("future"), flags} {
		if !bytes.Contains(out, keep) {
			t.Errorf("stripped CONNECT lost %q", keep)
		}
	}
}

func TestReaderBounds(t *testing.T) {
	frame := pulsarwire.AppendFrame(nil, pulsarwire.TypePing, nil)
	for name, tc := range map[string]struct {
		in   []byte
		want error
	}{
		"clean end":        {nil, io.EOF},
		"half a header":    {frame[:5], io.ErrUnexpectedEOF},
		"half a frame":     {frame[:len(frame)-1], io.ErrUnexpectedEOF},
		"huge frame":       {[]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 4, 1, 2, 3, 4}, pulsarwire.ErrTooLarge},
		"command too long": {[]byte{0, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4}, pulsarwire.ErrMalformed},
		"no command":       {[]byte{0, 0, 0, 4, 0, 0, 0, 0}, pulsarwire.ErrMalformed},
		"tiny total":       {[]byte{0, 0, 0, 1, 0, 0, 0, 1, 0}, pulsarwire.ErrMalformed},
	} {
		_, err := pulsarwire.NewReader(bytes.NewReader(tc.in), 1<<16).Next()
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: Next = %v; want %v", name, err, tc.want)
		}
	}
}

// A command that two parsers could read differently is refused: otherwise a
// peer could hide a SEND from the gate behind the type of a PING.
func TestAmbiguousCommandsAreRefused(t *testing.T) {
	varint := func(b []byte, num protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
	}
	body := func(b []byte, num protowire.Number) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), varint(nil, 1, 1))
	}
	for name, in := range map[string][]byte{
		"two types":      body(varint(varint(nil, 1, 18), 1, 6), 6),
		"two bodies":     body(body(varint(nil, 1, 6), 6), 6),
		"two, type last": varint(body(body(nil, 6), 6), 1, 6),
		"no type":        body(nil, 6),
	} {
		if _, err := pulsarwire.ParseCommand(in); !errors.Is(err, pulsarwire.ErrMalformed) {
			t.Errorf("%s: ParseCommand = %v; want ErrMalformed", name, err)
		}
	}
	c, err := pulsarwire.ParseCommand(varint(body(nil, 6), 1, 6))
	if err != nil || c.Type != pulsarwire.TypeSend || len(c.Body) == 0 {
		t.Errorf("type after body: ParseCommand = %v, %v; want a SEND", c, err)
	}
}

func TestSendFrameChecksum(t *testing.T) {
	frame := pulsarwire.AppendSendFrame(nil, pulsarwire.Send{ProducerID: 1, SequenceID: 2, NumMessages: 1},
		pulsarwire.Metadata{ProducerName: "p", SequenceID: 2, PublishTime: 3}, []byte("payload"))
	f, err := pulsarwire.NewReader(bufio.NewReader(bytes.NewReader(frame)), 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	payload, err := pulsarwire.VerifyMessage(f.Rest)
	if err != nil || string(payload) != "payload" {
		t.Errorf("VerifyMessage = %q, %v; want payload", payload, err)
	}
	f.Rest[len(f.Rest)-1] ^= 1
	if _, err := pulsarwire.VerifyMessage(f.Rest); !errors.Is(err, pulsarwire.ErrMalformed) {
		t.Errorf("VerifyMessage of a flipped bit = %v; want ErrMalformed", err)
	}
}

// Whatever bytes arrive, the reader stays within its bound, fails only with
// errors of the closed set, and a frame that it accepts decodes without panic.
func FuzzReader(f *testing.F) {
	f.Add(pulsarwire.AppendFrame(nil, pulsarwire.TypePing, nil))
	f.Add(pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, pulsarwire.Connect{ClientVersion: "c", Throttling: true}.Append(nil)))
	f.Add(pulsarwire.AppendSendFrame(nil, pulsarwire.Send{NumMessages: 2}, pulsarwire.Metadata{}, []byte("x")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := pulsarwire.NewReader(bytes.NewReader(in), 1<<16)
		for {
			frame, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
					!errors.Is(err, pulsarwire.ErrTooLarge) && !errors.Is(err, pulsarwire.ErrMalformed) {
					t.Fatalf("Next: %v is not one of the errors it may return", err)
				}
				return
			}
			if len(frame.Body)+len(frame.Rest) > 1<<16 {
				t.Fatalf("frame of %d bytes passes the bound", len(frame.Body)+len(frame.Rest))
			}
			decodeAll(t, frame)
		}
	})
}

// FuzzStripConnect: what is stripped carries neither the flag nor the broker,
// and stripping again changes nothing.
func FuzzStripConnect(f *testing.F) {
	f.Add(pulsarwire.Connect{ClientVersion: "c", ProxyToBroker: "b", Throttling: true}.Append(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := pulsarwire.StripConnect(nil, in)
		if err != nil {
			return
		}
		c, err := pulsarwire.DecodeConnect(once)
		if err != nil || c.Throttling || c.ProxyToBroker != "" {
			t.Fatalf("stripped CONNECT decodes to %+v, %v", c, err)
		}
		twice, err := pulsarwire.StripConnect(nil, once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("stripping twice: %x, %v; once: %x", twice, err, once)
		}
	})
}

// decodeAll runs every decoder over the body of a frame, whatever its type.
func decodeAll(t *testing.T, frame pulsarwire.Frame) {
	t.Helper()
	b := frame.Body
	s, _ := pulsarwire.DecodeSend(b)
	if s.NumMessages < 1 || s.NumMessages > 1<<20 {
		t.Fatalf("DecodeSend: %d messages", s.NumMessages)
	}
	pulsarwire.DecodeSendReceipt(b)
	pulsarwire.DecodeSendError(b)
	pulsarwire.DecodeProducer(b)
	pulsarwire.DecodeProducerSuccess(b)
	pulsarwire.DecodeCloseProducer(b)
	pulsarwire.DecodeError(b)
	pulsarwire.DecodeRequestID(b, 1)
	pulsarwire.DecodeThrottleProducer(b)
	pulsarwire.DecodeConnect(b)
	pulsarwire.DecodeConnected(b)
	pulsarwire.ReplaceMaxMessageSize(nil, b, 1)
	pulsarwire.DecodeLookupResponse(b)
	pulsarwire.RewriteLookup(nil, b, "u", "")
	pulsarwire.DecodeTopicRequest(b)
	pulsarwire.DecodePartitionedMetadata(b)
	pulsarwire.DecodeTopicMigrated(b)
	pulsarwire.DropFields(nil, b, 3)
	pulsarwire.VerifyMessage(frame.Rest)
	pulsarwire.PeekType(b)
}

// Deciding about a SEND allocates nothing.
func TestSendDecodesWithoutAllocating(t *testing.T) {
	frame := pulsarwire.AppendSendFrame(nil, pulsarwire.Send{ProducerID: 1, SequenceID: 2, NumMessages: 3},
		pulsarwire.Metadata{ProducerName: "p"}, []byte("x"))
	if n := testing.AllocsPerRun(100, func() {
		h, _ := pulsarwire.ParseHeader(frame, 1<<20, 1<<20)
		c, _ := pulsarwire.ParseCommand(frame[pulsarwire.HeaderSize : pulsarwire.HeaderSize+h.Command])
		if s, _ := pulsarwire.DecodeSend(c.Body); s.NumMessages != 3 {
			t.Fatal("decoded wrongly")
		}
	}); n != 0 {
		t.Errorf("decoding a SEND allocates %v times; want 0", n)
	}
}

// What a CONNECT says to the gate alone is taken out, and so is what would lead
// the client of Pulsar 5 around it. An empty name of a broker stays: before the
// official proxy it is what tells a connection to any broker from a lookup's.
func TestStripConnectOfPulsar5(t *testing.T) {
	flags := []byte{1 << 3, 1, 8 << 3, 1, 9 << 3, 1}
	for name, tc := range map[string]struct{ body, want []byte }{
		"a broker is named":       {[]byte{6<<3 | 2, 1, 'b', 4 << 3, 21}, []byte{4 << 3, 21}},
		"any broker":              {[]byte{6<<3 | 2, 0, 4 << 3, 21}, []byte{6<<3 | 2, 0, 4 << 3, 21}},
		"flags of Pulsar 5":       {append([]byte{10<<3 | 2, 6}, flags...), []byte{10<<3 | 2, 2, 1 << 3, 1}},
		"nothing is for the gate": {[]byte{1<<3 | 2, 1, 'x'}, []byte{1<<3 | 2, 1, 'x'}},
	} {
		got, err := pulsarwire.StripConnect(nil, tc.body)
		if err != nil || !bytes.Equal(got, tc.want) {
			t.Errorf("%s: % x, %v; want % x", name, got, err, tc.want)
		}
	}
}
