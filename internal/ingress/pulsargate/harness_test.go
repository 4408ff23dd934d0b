package pulsargate_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// off is a policy that refuses nothing.
func off() *limiter.Policy { return &limiter.Policy{Mode: limiter.Off} }

// seen is one frame that arrived at a peer.
type seen struct {
	pulsarwire.Command
	raw []byte
	at  time.Time
}

// peer is the far end of one of the gate's connections: a client or a broker
// that the test plays by hand. It reads all the time unless it is deaf.
type peer struct {
	t    *testing.T
	conn net.Conn

	mu     sync.Mutex
	frames []seen
	half   []byte // what came behind the last whole frame
	err    error
	done   chan struct{}
}

func newPeer(t *testing.T, conn net.Conn) *peer {
	t.Helper()
	p := &peer{t: t, conn: conn, done: make(chan struct{})}
	go p.read()
	return p
}

func (p *peer) read() {
	defer close(p.done)
	var raw bytes.Buffer
	in := pulsarwire.NewReader(io.TeeReader(bufio.NewReader(p.conn), &raw), 64<<20)
	for {
		raw.Reset()
		f, err := in.Next()
		p.mu.Lock()
		if err != nil {
			p.err, p.half = err, bytes.Clone(raw.Bytes())
			p.mu.Unlock()
			return
		}
		f.Body = bytes.Clone(f.Body)
		p.frames = append(p.frames, seen{Command: f.Command, raw: bytes.Clone(raw.Bytes()), at: time.Now()})
		p.mu.Unlock()
	}
}

// write sends bytes as they are.
func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Errorf("write: %v", err)
	}
}

// command sends one command.
func (p *peer) command(t pulsarwire.Type, body []byte) {
	p.t.Helper()
	p.write(pulsarwire.AppendFrame(nil, t, body))
}

// all returns the frames of one type that have arrived, every frame for type 0.
func (p *peer) all(t pulsarwire.Type) []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []seen
	for _, f := range p.frames {
		if t == 0 || f.Type == t {
			out = append(out, f)
		}
	}
	return out
}

// partial returns what came behind the last whole frame before the connection
// ended.
func (p *peer) partial() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.half
}

// closed reports whether the connection has ended.
func (p *peer) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// sendFrame returns a SEND.
func sendFrame(producer, sequence uint64, payload int) []byte {
	return pulsarwire.AppendSendFrame(nil, pulsarwire.Send{ProducerID: producer, SequenceID: sequence, NumMessages: 1},
		pulsarwire.Metadata{ProducerName: "p", SequenceID: sequence, PublishTime: 1}, make([]byte, payload))
}

// publish sends n messages of a producer, numbered from 0.
func (p *peer) publish(producer uint64, n, payload int) {
	p.t.Helper()
	for i := range uint64(n) {
		p.write(sendFrame(producer, i, payload))
	}
}

// published returns the SENDs that have arrived, one behind the other.
func (p *peer) published() (stream []byte) {
	for _, f := range p.all(pulsarwire.TypeSend) {
		stream = append(stream, f.raw...)
	}
	return stream
}

// store sends the receipts of the first n messages of a producer.
func (p *peer) store(producer uint64, n int) {
	p.t.Helper()
	for i := range uint64(n) {
		p.write(receipt(producer, i))
	}
}

// receipt returns a SEND_RECEIPT.
func receipt(producer, sequence uint64) []byte {
	body := pulsarwire.SendReceipt{ProducerID: producer, SequenceID: sequence, LedgerID: 1, EntryID: sequence}.Append(nil)
	return pulsarwire.AppendFrame(nil, pulsarwire.TypeSendReceipt, body)
}

// open sends a PRODUCER.
func (p *peer) open(id uint64, topic string) {
	p.t.Helper()
	p.command(pulsarwire.TypeProducer, pulsarwire.Producer{Topic: topic, ProducerID: id, RequestID: 100 + id}.Append(nil))
}

// pair is a gate with a client and a broker that the test plays.
type pair struct {
	server         *pulsargate.Server
	gate           *limiter.Gate
	client, broker *peer
	drain          func()        // begins a drain, which the gate has seen then
	served         chan struct{} // closed when ServeConn has returned
	events         *events
}

// play starts a gate between two peers over in-memory pipes; it is for bubbles.
func play(t *testing.T, o pulsargate.Options, policy *limiter.Policy, hello pulsarwire.Connect) *pair {
	t.Helper()
	clientEnd, gateClient := net.Pipe()
	brokerEnd, gateBroker := net.Pipe()
	p := &pair{gate: limiter.New("queue", policy, limiter.Options{}), served: make(chan struct{}), events: &events{}}
	o.Backend = "broker:6650"
	o.Dial = func(context.Context, string) (net.Conn, error) { return gateBroker, nil }
	o.Observer = p.events
	var err error
	if p.server, err = pulsargate.New(p.gate, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.drain = func() { cancel(); synctest.Wait() }
	go func() {
		defer close(p.served)
		p.server.ServeConn(ctx, gateClient)
	}()
	p.client, p.broker = newPeer(t, clientEnd), newPeer(t, brokerEnd)
	t.Cleanup(func() {
		clientEnd.Close()
		brokerEnd.Close()
		p.ended()
		cancel()
		if s := p.server.Status(); s != (pulsargate.Status{Topics: s.Topics}) {
			t.Errorf("after the last connection the server still counts %+v", s)
		}
	})
	p.client.command(pulsarwire.TypeConnect, hello.Append(nil))
	p.broker.command(pulsarwire.TypeConnected, pulsarwire.Connected{ServerVersion: "test"}.Append(nil))
	return p
}

// ended waits until the gate is done with both, and both have read to the end.
func (p *pair) ended() {
	<-p.served
	<-p.client.done
	<-p.broker.done
}

// aware and unaware are clients that do and do not understand ThrottleProducer.
func aware() pulsarwire.Connect {
	return pulsarwire.Connect{ClientVersion: "test", ProtocolVersion: 19, Throttling: true}
}

func unaware() pulsarwire.Connect {
	return pulsarwire.Connect{ClientVersion: "test", ProtocolVersion: 19}
}

// events is an Observer that remembers.
type events struct {
	mu        sync.Mutex
	happened  map[string]int
	limited   map[string]int           // by topic label and limit
	throttled map[string]time.Duration // by topic label and reason
}

func (e *events) Limited(topic, limit string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.limited == nil {
		e.limited = map[string]int{}
	}
	e.limited[topic+" "+limit]++
}

func (e *events) Throttled(topic, reason string, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.throttled == nil {
		e.throttled = map[string]time.Duration{}
	}
	e.throttled[topic+" "+reason] += d
}

func (e *events) Happened(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.happened == nil {
		e.happened = map[string]int{}
	}
	e.happened[event]++
}

// counts returns what happened so far.
func (e *events) counts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.happened)
}
