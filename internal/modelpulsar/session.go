package modelpulsar

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/admitd/admitd/pulsarwire"
)

// maxReceipts bounds the messages of one session that wait for a worker; when
// it is reached the session stops reading, as brokers do.
const maxReceipts = 100_000

// session is one client.
type session struct {
	b         *Broker
	c         net.Conn
	in        *bufio.Reader
	out       *bufio.Writer
	turn      chan struct{} // holds one token: the right to use out and scratch
	scratch   []byte
	producers map[uint64]string // topic by producer id
	due       chan receipt
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
		turn: make(chan struct{}, 1), producers: map[uint64]string{},
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
		c, err := pulsarwire.DecodeCloseProducer(f.Body)
		delete(s.producers, c.ProducerID)
		return s.reply(err, pulsarwire.TypeSuccess, pulsarwire.AppendRequestID(nil, c.RequestID))
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

// producer makes a producer.
func (s *session) producer(f pulsarwire.Frame) bool {
	p, err := pulsarwire.DecodeProducer(f.Body)
	s.producers[p.ProducerID] = p.Topic
	n := s.b.stats.Producers.Add(1)
	if p.Name == "" {
		p.Name = "model-" + strconv.FormatInt(n, 10)
	}
	answer := pulsarwire.ProducerSuccess{RequestID: p.RequestID, Name: p.Name}
	return s.reply(err, pulsarwire.TypeProducerSuccess, answer.Append(nil))
}

// send takes one message and answers it, now or when a worker has served it.
func (s *session) send(ctx context.Context, f pulsarwire.Frame) bool {
	m, err := pulsarwire.DecodeSend(f.Body)
	topic, known := s.producers[m.ProducerID]
	if err == nil {
		_, err = pulsarwire.VerifyMessage(f.Rest)
	}
	if err != nil || !known {
		s.b.stats.Violations.Add(1)
		return false
	}
	s.b.stats.Sends.Add(1)
	s.b.stats.Bytes.Add(int64(len(f.Rest)))
	if s.b.o.Sent != nil {
		s.b.o.Sent(topic, m, pulsarwire.HeaderSize+len(f.Body)+len(f.Rest))
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
