package pulsar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// Answer is a command that came.
type Answer struct {
	Type pulsarwire.Type
	Body []byte
}

// ErrOver says that the connection has ended.
var ErrOver = errors.New("the connection is over")

// Raw is a connection that is played frame by frame, as no client does it. It is
// for one goroutine.
type Raw struct {
	Mute atomic.Bool // PINGs stay unanswered

	conn    net.Conn
	mu      sync.Mutex // one write at a time
	came    chan Answer
	kept    []Answer // came before they were asked for
	request uint64
}

// Dial connects to address and says hello: with a token unless it is empty, and
// asking for a broker behind a proxy unless that is empty.
func Dial(ctx context.Context, address, token, broker string) (*Raw, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	r := &Raw{conn: conn, came: make(chan Answer, 10_000)}
	go r.read()
	body := pulsarwire.Connect{ClientVersion: "proving", ProtocolVersion: 21, ProxyToBroker: broker}.Append(nil)
	if token != "" {
		body = appendText(appendText(body, 3, token), 5, "token")
	}
	r.Write(pulsarwire.TypeConnect, body)
	if a, err := r.Await(10*time.Second, pulsarwire.TypeConnected, pulsarwire.TypeError); err != nil || a.Type != pulsarwire.TypeConnected {
		r.Close()
		return nil, fmt.Errorf("no CONNECTED: %w, %v", err, Told(a))
	}
	return r, nil
}

// Close ends it.
func (r *Raw) Close() { r.conn.Close() }

// read takes what comes, and answers PINGs.
func (r *Raw) read() {
	defer close(r.came)
	frames := pulsarwire.NewReader(r.conn, 0)
	for {
		f, err := frames.Next()
		if err != nil {
			return
		}
		if f.Type == pulsarwire.TypePing && !r.Mute.Load() {
			r.Write(pulsarwire.TypePong, nil)
		}
		r.came <- Answer{Type: f.Type, Body: slices.Clone(f.Body)}
	}
}

// Write sends a command. An error shows as the end of the connection.
func (r *Raw) Write(t pulsarwire.Type, body []byte) {
	r.WriteBytes(pulsarwire.AppendFrame(nil, t, body))
}

// WriteBytes sends bytes.
func (r *Raw) WriteBytes(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.conn.Write(b) // the reader sees it
}

// Await returns the next command of one of these types; others are kept for later.
func (r *Raw) Await(within time.Duration, types ...pulsarwire.Type) (Answer, error) {
	for i, a := range r.kept {
		if slices.Contains(types, a.Type) {
			r.kept = slices.Delete(r.kept, i, i+1)
			return a, nil
		}
	}
	end := time.After(within)
	for {
		select {
		case a, ok := <-r.came:
			switch {
			case !ok:
				return Answer{}, ErrOver
			case slices.Contains(types, a.Type):
				return a, nil
			}
			r.kept = append(r.kept, a)
		case <-end:
			return Answer{}, fmt.Errorf("none of %v within %v", types, within)
		}
	}
}

// Ask sends a request whose body build makes of its id, and returns its answer.
func (r *Raw) Ask(t pulsarwire.Type, build func(id uint64) []byte, answers ...pulsarwire.Type) (Answer, error) {
	r.Write(t, build(r.NextID()))
	return r.Await(20*time.Second, append(answers, pulsarwire.TypeError)...)
}

// NextID returns the id of a new request.
func (r *Raw) NextID() uint64 { r.request++; return r.request }

// Open asks for a producer of an epoch.
func (r *Raw) Open(id uint64, topic, name string, epoch uint64) (Answer, error) {
	return r.Ask(pulsarwire.TypeProducer, func(request uint64) []byte {
		body := pulsarwire.Producer{Topic: topic, ProducerID: id, RequestID: request, Name: name}.Append(nil)
		return protowire.AppendVarint(protowire.AppendTag(body, 8, protowire.VarintType), epoch)
	}, pulsarwire.TypeProducerSuccess)
}

// Shut sends a CLOSE_PRODUCER, and does not wait.
func (r *Raw) Shut(id uint64) {
	r.Write(pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: id, RequestID: r.NextID()}.Append(nil))
}

// Send sends a message of n, which are said to be in it.
func (r *Raw) Send(id, sequence uint64, n int) { r.WriteBytes(Message(id, sequence, n)) }

// Message returns the frame of one.
func Message(id, sequence uint64, n int) []byte {
	m := pulsarwire.Metadata{ProducerName: "raw", SequenceID: sequence, PublishTime: uint64(time.Now().UnixMilli())}
	return pulsarwire.AppendSendFrame(nil, pulsarwire.Send{ProducerID: id, SequenceID: sequence, NumMessages: n}, m, []byte("proving"))
}

// Receipts waits for n receipts and returns their sequence ids.
func (r *Raw) Receipts(n int, within time.Duration) (got []uint64, err error) {
	end := time.Now().Add(within)
	for range n {
		a, err := r.Await(time.Until(end), pulsarwire.TypeSendReceipt)
		if err != nil {
			return got, err
		}
		receipt, err := pulsarwire.DecodeSendReceipt(a.Body)
		if err != nil {
			return got, err
		}
		got = append(got, receipt.SequenceID)
	}
	return got, nil
}

// Alive reports whether a PING is answered.
func (r *Raw) Alive(within time.Duration) bool {
	r.Write(pulsarwire.TypePing, nil)
	_, err := r.Await(within, pulsarwire.TypePong)
	return err == nil
}

// Told says an answer in words: its type, and the code of an error.
func Told(a Answer) string {
	switch a.Type {
	case pulsarwire.TypeError:
		e, _ := pulsarwire.DecodeError(a.Body)
		return fmt.Sprintf("ERROR %d (%s)", e.Code, e.Message)
	case pulsarwire.TypeSendError:
		e, _ := pulsarwire.DecodeSendError(a.Body)
		return fmt.Sprintf("SEND_ERROR %d", e.Code)
	default:
		return fmt.Sprint("command ", a.Type)
	}
}

// appendText appends a field with text.
func appendText(dst []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), text)
}
