package modelpulsar

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// maxReceipts bounds the messages of one session that wait for a worker; when
// it is reached the session stops reading, as brokers do.
const maxReceipts = 100_000

// session is one client.
type session struct {
	b       *Broker
	c       net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	turn    chan struct{} // holds one token: the right to use out and scratch
	scratch []byte
	due     chan receipt
	heard   atomic.Bool // since it was last asked whether it is there

	mu        sync.Mutex          // guards the fields below; never held across a wait
	producers map[uint64]produced // by id
	shut      map[uint64]struct{} // by the broker: what comes of them still is ignored
}

// receipt is an answer that is due at a time.
type receipt struct {
	at time.Time
	r  pulsarwire.SendReceipt
}

// newSession returns a session that has not begun.
func newSession(b *Broker, c net.Conn) *session {
	s := &session{
		b: b, c: c, in: bufio.NewReaderSize(c, 64<<10), out: bufio.NewWriterSize(c, 64<<10),
		turn: make(chan struct{}, 1), producers: map[uint64]produced{}, shut: map[uint64]struct{}{},
	}
	s.turn <- struct{}{}
	return s
}

// serve reads frames until the client leaves or breaks the protocol.
func (s *session) serve(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.c.Close() // a receipt that is being written must not keep us waiting
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.b.o.ServiceTime > 0 {
		s.due = make(chan receipt, maxReceipts)
		wg.Go(func() { s.answerWhenDue(ctx) })
	}
	if s.b.o.KeepAlive > 0 {
		wg.Go(func() { s.keepAlive(ctx) })
	}
	frames := pulsarwire.NewReader(s.in, s.b.o.MaxMessageSize+pulsarwire.FramePadding)
	for {
		f, err := frames.Next()
		if err != nil || !s.handle(ctx, f) {
			return
		}
		if s.in.Buffered() == 0 && s.flush() != nil {
			return
		}
	}
}

// handle serves one frame; false ends the session.
func (s *session) handle(ctx context.Context, f pulsarwire.Frame) bool {
	s.heard.Store(true)
	switch f.Type {
	case pulsarwire.TypeSend:
		return s.send(ctx, f)
	case pulsarwire.TypeConnect:
		c, err := pulsarwire.DecodeConnect(f.Body)
		if s.b.o.Connected != nil {
			s.b.o.Connected(c)
		}
		answer := pulsarwire.Connected{
			ServerVersion: "modelpulsar", ProtocolVersion: min(c.ProtocolVersion, 19), MaxMessageSize: s.b.o.MaxMessageSize,
		}
		return s.reply(err, pulsarwire.TypeConnected, answer.Append(nil))
	case pulsarwire.TypePing:
		return s.reply(nil, pulsarwire.TypePong, nil)
	case pulsarwire.TypePong:
		return true
	case pulsarwire.TypePartitionedMetadata:
		r, err := pulsarwire.DecodeTopicRequest(f.Body)
		answer := pulsarwire.PartitionedMetadata{RequestID: r.RequestID, Partitions: uint64(s.b.o.Partitions[r.Topic])}
		return s.reply(err, pulsarwire.TypePartitionedMetadataOK, answer.Append(nil))
	case pulsarwire.TypeLookup:
		return s.lookup(f)
	case pulsarwire.TypeProducer:
		return s.producer(f)
	case pulsarwire.TypeCloseProducer:
		return s.closeProducer(f)
	default:
		s.b.stats.Unknown.Add(1)
		return true
	}
}

// lookup answers that this broker serves every topic.
func (s *session) lookup(f pulsarwire.Frame) bool {
	r, err := pulsarwire.DecodeTopicRequest(f.Body)
	url := s.b.o.URL
	if url == "" {
		url = "pulsar://" + s.c.LocalAddr().String()
	}
	answer := pulsarwire.LookupResponse{
		BrokerURL: url, Response: pulsarwire.LookupConnect, RequestID: r.RequestID, Authoritative: true,
	}
	return s.reply(err, pulsarwire.TypeLookupResponse, answer.Append(nil))
}

// producer makes a producer, unless there is one of its name. One that is asked for
// twice is the same.
func (s *session) producer(f pulsarwire.Frame) bool {
	p, err := pulsarwire.DecodeProducer(f.Body)
	s.mu.Lock()
	old, again := s.producers[p.ProducerID]
	s.mu.Unlock()
	if again {
		answer := pulsarwire.ProducerSuccess{RequestID: p.RequestID, Name: old.name}
		return s.reply(err, pulsarwire.TypeProducerSuccess, answer.Append(nil))
	}
	n := s.b.stats.Producers.Add(1)
	if p.Name == "" {
		p.Name = "model-" + strconv.FormatInt(n, 10)
	}
	made := produced{topic: p.Topic, name: p.Name}
	if err == nil && !s.b.claim(made) {
		refusal := pulsarwire.Error{RequestID: p.RequestID, Code: pulsarwire.ProducerBusy, Message: "there is a producer of this name"}
		return s.reply(nil, pulsarwire.TypeError, refusal.Append(nil))
	}
	s.mu.Lock()
	s.producers[p.ProducerID] = made
	delete(s.shut, p.ProducerID)
	s.mu.Unlock()
	answer := pulsarwire.ProducerSuccess{RequestID: p.RequestID, Name: p.Name}
	return s.reply(err, pulsarwire.TypeProducerSuccess, answer.Append(nil))
}

// closeProducer ends one that the client has done with.
func (s *session) closeProducer(f pulsarwire.Frame) bool {
	c, err := pulsarwire.DecodeCloseProducer(f.Body)
	s.mu.Lock()
	p := s.producers[c.ProducerID]
	delete(s.producers, c.ProducerID)
	s.mu.Unlock()
	s.b.release(p)
	return s.reply(err, pulsarwire.TypeSuccess, pulsarwire.AppendRequestID(nil, c.RequestID))
}

// unload closes the producers of a topic, and tells the client.
func (s *session) unload(topic string) {
	told := map[uint64]produced{}
	s.mu.Lock()
	for id, p := range s.producers {
		if p.topic == topic {
			told[id] = p
			delete(s.producers, id)
			s.shut[id] = struct{}{}
		}
	}
	s.mu.Unlock()
	for id, p := range told {
		s.b.release(p)
		s.reply(nil, pulsarwire.TypeCloseProducer, pulsarwire.CloseProducer{ProducerID: id}.Append(nil))
	}
	_ = s.flush() // who reads from a connection that is over finds out
}

// keepAlive asks a silent client whether it is there, and gives up one that was
// silent after that.
func (s *session) keepAlive(ctx context.Context) {
	tick := time.NewTicker(s.b.o.KeepAlive)
	defer tick.Stop()
	for asked := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !s.heard.Swap(false) && asked {
			s.c.Close()
			return
		}
		asked = true
		if !s.reply(nil, pulsarwire.TypePing, nil) || s.flush() != nil {
			return
		}
	}
}

// send takes one message and answers it, now or when a worker has served it.
func (s *session) send(ctx context.Context, f pulsarwire.Frame) bool {
	m, err := pulsarwire.DecodeSend(f.Body)
	s.mu.Lock()
	p, known := s.producers[m.ProducerID]
	_, shut := s.shut[m.ProducerID]
	s.mu.Unlock()
	if shut {
		return true
	}
	if err != nil || !known {
		s.b.stats.Violations.Add(1)
		return false
	}
	if _, err := pulsarwire.VerifyMessage(f.Rest); err != nil {
		s.b.stats.Violations.Add(1)
		refusal := pulsarwire.SendError{ProducerID: m.ProducerID, SequenceID: m.SequenceID, Code: pulsarwire.ChecksumError, Message: err.Error()}
		return s.reply(nil, pulsarwire.TypeSendError, refusal.Append(nil))
	}
	s.b.stats.Sends.Add(1)
	s.b.stats.Bytes.Add(int64(len(f.Rest)))
	if s.b.o.Sent != nil {
		s.b.o.Sent(p.topic, m, pulsarwire.HeaderSize+len(f.Body)+len(f.Rest))
	}
	done, entry := s.b.schedule(time.Now())
	r := pulsarwire.SendReceipt{
		ProducerID: m.ProducerID, SequenceID: m.SequenceID, HighestSequenceID: m.HighestSequenceID,
		LedgerID: 1, EntryID: entry,
	}
	if s.due == nil {
		var body [64]byte
		return s.reply(nil, pulsarwire.TypeSendReceipt, r.Append(body[:0]))
	}
	select {
	case s.due <- receipt{at: done, r: r}:
		return true
	case <-ctx.Done():
		return false
	}
}

// answerWhenDue writes receipts at their times, in order.
func (s *session) answerWhenDue(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var next receipt
		select {
		case next = <-s.due:
		case <-ctx.Done():
			return
		}
		if wait := time.Until(next.at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		var body [64]byte
		if !s.reply(nil, pulsarwire.TypeSendReceipt, next.r.Append(body[:0])) {
			return
		}
		if len(s.due) == 0 && s.flush() != nil {
			return
		}
	}
}

// reply buffers one frame; false ends the session. err is that of decoding the
// request.
func (s *session) reply(err error, t pulsarwire.Type, body []byte) bool {
	if err != nil {
		s.b.stats.Violations.Add(1)
		return false
	}
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.scratch = pulsarwire.AppendFrame(s.scratch[:0], t, body)
	_, err = s.out.Write(s.scratch)
	return err == nil
}

// flush sends what was buffered.
func (s *session) flush() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	return s.out.Flush()
}
