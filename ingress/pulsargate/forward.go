package pulsargate

import (
	"fmt"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/pulsarwire"
)

// clientSide decides about the frames of the client.
type clientSide struct {
	*session
	target *producer // whose frame keep is about to be handed
	frame  heldFrame // and what is known about it
	pause  pause     // what wait waits for

	sent     *producer // whose message the frame is that passes; nil = it is none
	sequence uint64    // of that message
}

// whole reports that a client's command is always read to its end: one that hid
// its type behind its body would otherwise evade the limits.
func (*clientSide) whole([]byte) bool { return true }

// inspect implements inspector.
func (c *clientSide) inspect(now int64, h pulsarwire.Header, cmd []byte) (action, []byte, error) {
	c.sent = nil
	if c.missing.Load() > 0 {
		c.pause = pause{kind: pauseMissing}
		return actPause, nil, nil
	}
	command, err := pulsarwire.ParseCommand(cmd)
	if err != nil {
		return actPass, nil, err
	}
	switch command.Type {
	case pulsarwire.TypeSend:
		m, err := pulsarwire.DecodeSend(command.Body)
		if err != nil {
			return actPass, nil, err
		}
		return c.send(now, &m, h.Total), nil, nil
	case pulsarwire.TypeProducer:
		return c.open(now, command.Body)
	case pulsarwire.TypeCloseProducer:
		return c.close(now, command.Body, h.Total)
	case pulsarwire.TypeConnect: // it would carry to the broker what was meant for the gate
		return actPass, nil, fmt.Errorf("%w: a second CONNECT", pulsarwire.ErrMalformed)
	case pulsarwire.TypeThrottleProducerReceipt:
		if !c.throttling {
			return actPass, nil, nil
		}
		id, err := pulsarwire.DecodeRequestID(command.Body, 1)
		c.acknowledged(now, id)
		return actSwallow, nil, err
	default:
		return actPass, nil, nil
	}
}

// send decides about one message.
func (c *clientSide) send(now int64, m *pulsarwire.Send, size int) action {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.producers[m.ProducerID]
	if p == nil {
		return actPass // the broker knows what to do with it
	}
	if c.inFlight >= c.srv.limits.Load().MaxPending {
		return c.pauseLocked(now, p, pause{kind: pausePending})
	}
	if p.releasing {
		return c.queueLocked(now, p, heldFrame{send: *m, size: size})
	}
	full := c.fullLocked(size)
	v := c.decide(now, p, m, size, full == "" && c.srv.o.Method != Pause)
	switch {
	case v.ok:
		c.launchLocked(p, now, m, v.permit)
		c.sent, c.sequence = p, m.SequenceID
		return actPass
	case c.srv.o.Method == Pause:
		return c.pauseLocked(now, p, pause{kind: pauseTime, until: now + int64(v.wait), cause: v})
	case full != "":
		return c.pauseLocked(now, p, pause{kind: pauseRoom, size: size, until: now + int64(v.wait), cause: verdict{limit: full}})
	}
	p.blockLocked(now, &v, m, size)
	return c.holdLocked(p, heldFrame{send: *m, size: size})
}

// streamed implements inspector: the latency of a message begins when the broker
// has all of it, or a slow client would make the broker look slow.
func (c *clientSide) streamed(now int64) {
	p := c.sent
	if p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := p.flights.n; n > 0 && p.flights.at(n-1).sequence == c.sequence {
		p.flights.at(n - 1).start = now
	}
}

// open registers a producer, or refuses it when the connection or the gate is
// past its bounds.
func (c *clientSide) open(now int64, body []byte) (action, []byte, error) {
	p, err := pulsarwire.DecodeProducer(body)
	if err != nil {
		return actPass, nil, err
	}
	if c.pending(p.RequestID) {
		return actPass, nil, errSameID
	}
	if c.conflicts(&p) {
		return actSwallow, nil, c.client.write(refusal(p.RequestID, pulsarwire.ServiceNotReady, "the producer is still open"))
	}
	if why := c.register(now, &p); why != "" {
		c.srv.o.Observer.Happened(EventProducerRefused)
		return actSwallow, nil, c.client.write(refusal(p.RequestID, pulsarwire.TooManyRequests, why))
	}
	return actPass, nil, nil
}

// errSameID ends the connection of a client whose answers could not be told apart.
var errSameID = fmt.Errorf("%w: two requests of the same id", pulsarwire.ErrMalformed)

// pending reports whether a request of that id waits for its answer.
func (s *session) pending(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.requests[id]
	return found
}

// conflicts reports whether a producer of the same id is open for another topic,
// or its end is still held. Brokers keep the older of the two, so the gate could
// not tell whose messages come next.
func (s *session) conflicts(p *pulsarwire.Producer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.producers[p.ProducerID]
	return old != nil && !old.closing && (old.ending || old.name != p.Topic)
}

// register adds a producer to the table, or says why not.
func (s *session) register(now int64, p *pulsarwire.Producer) (why string) {
	limits := s.srv.limits.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return "the gate is draining"
	case len(s.producers) >= limits.MaxProducers || len(s.requests) >= 2*limits.MaxProducers:
		return "too many producers on this connection"
	case s.inFlight >= limits.MaxPending || s.held >= limits.MaxPending:
		return "too many pending messages on this connection"
	case s.heldBytes >= limits.MaxHeldBytes || s.srv.heldBytes.Load() >= int64(limits.MaxGateHeldBytes):
		return "too many bytes held"
	}
	if old := s.producers[p.ProducerID]; old != nil {
		if !old.closing { // asked for twice; brokers keep the first and may refuse the second
			old.opening++
			s.requests[p.RequestID] = request{producer: old}
			return ""
		}
		s.dropLocked(old, limiter.Ignored) // the client sends again what had no receipt
	}
	name := parseTopic(p.Topic)
	added := &producer{
		id: p.ProducerID, name: p.Topic, topic: s.srv.topics.join(name, now), opening: 1,
		key: partitionKey(s.srv.o.By, &name, s.client.conn.RemoteAddr()), applied: s.srv.applied.Load(),
	}
	s.producers[p.ProducerID] = added
	s.requests[p.RequestID] = request{producer: added}
	s.srv.producers.Add(1)
	return ""
}

// close notes that the client ends a producer. It must not overtake the
// producer's messages that are held.
func (c *clientSide) close(now int64, body []byte, size int) (action, []byte, error) {
	m, err := pulsarwire.DecodeCloseProducer(body)
	if err != nil {
		return actPass, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.producers[m.ProducerID]
	if p == nil {
		return actPass, nil, nil
	}
	if p.releasing {
		act := c.queueLocked(now, p, heldFrame{size: size, control: true, request: m.RequestID})
		p.ending = p.ending || act == actHold
		return act, nil, nil
	}
	c.closingLocked(p, m.RequestID)
	return actPass, nil, nil
}

// closingLocked records that the end of a producer is forwarded.
func (s *session) closingLocked(p *producer, id uint64) {
	p.closing = true
	if len(s.requests) < 2*s.srv.limits.Load().MaxProducers {
		s.requests[id] = request{producer: p, closing: true}
	}
}

// answered settles the request with the given id. The error says that the client
// gave two requests the same id, so that a producer which the gate takes for
// refused exists.
func (s *session) answered(id uint64, t pulsarwire.Type) error {
	success := t != pulsarwire.TypeError
	s.mu.Lock()
	defer s.mu.Unlock()
	r, found := s.requests[id]
	if !found {
		if _, refused := s.refused[id]; refused && t == pulsarwire.TypeProducerSuccess {
			return errSameID
		}
		return nil
	}
	delete(s.requests, id)
	p, over := r.producer, r.closing && success
	if !r.closing {
		p.opening--
		p.opened = p.opened || success
		over = !p.opened && p.opening == 0
	}
	if over {
		s.dropLocked(p, limiter.Ignored)
	}
	if over && !r.closing {
		if len(s.refused) >= s.srv.limits.Load().MaxProducers {
			return fmt.Errorf("pulsargate: %d producers were refused", len(s.refused))
		}
		s.refused[id] = struct{}{}
	}
	return nil
}

// dropLocked forgets a producer and what it has in flight or held.
func (s *session) dropLocked(p *producer, outcome limiter.Outcome) {
	if p.gone {
		return
	}
	p.gone = true
	if s.producers[p.id] == p {
		delete(s.producers, p.id)
	}
	for p.flights.n > 0 {
		fl, _ := p.flights.pop(p.flights.at(0).sequence)
		fl.permit.End(outcome)
		s.inFlight--
	}
	delete(s.notices, p.notice.id)
	s.discardLocked(p)
	s.srv.topics.leave(p.topic)
	s.srv.producers.Add(-1)
	s.signal()
}

// brokerSide decides about the frames of the broker.
type brokerSide struct{ *session }

// whole reports whether the gate has to understand the command.
func (*brokerSide) whole(prefix []byte) bool {
	t, ok := pulsarwire.PeekType(prefix)
	if !ok {
		return true
	}
	switch t {
	case pulsarwire.TypeConnected, pulsarwire.TypeSendReceipt, pulsarwire.TypeSendError, pulsarwire.TypeSuccess,
		pulsarwire.TypeError, pulsarwire.TypeCloseProducer, pulsarwire.TypeCloseConsumer, pulsarwire.TypeProducerSuccess,
		pulsarwire.TypeLookupResponse, pulsarwire.TypeTopicMigrated, pulsarwire.TypePing:
		return true
	default:
		return false
	}
}

// inspect implements inspector.
func (b *brokerSide) inspect(now int64, _ pulsarwire.Header, cmd []byte) (action, []byte, error) {
	b.health.Answered()
	if !b.whole(cmd) {
		return actPass, nil, nil
	}
	command, err := pulsarwire.ParseCommand(cmd)
	if err != nil {
		return actPass, nil, err
	}
	switch command.Type {
	case pulsarwire.TypeSendReceipt:
		r, err := pulsarwire.DecodeSendReceipt(command.Body)
		if err == nil {
			b.landed(now, r.ProducerID, r.SequenceID, limiter.Success)
		}
		return actPass, nil, err
	case pulsarwire.TypeSendError:
		e, err := pulsarwire.DecodeSendError(command.Body)
		if err == nil {
			b.landed(now, e.ProducerID, e.SequenceID, judge(e.Code))
		}
		return actPass, nil, err
	case pulsarwire.TypeProducerSuccess, pulsarwire.TypeSuccess, pulsarwire.TypeError:
		id, err := pulsarwire.DecodeRequestID(command.Body, 1)
		if err == nil {
			err = b.answered(id, command.Type)
		}
		return actPass, nil, err
	case pulsarwire.TypePing:
		if b.paused.Load() { // the client's own answer waits behind what is not read
			return actPass, nil, b.broker.write(pulsarwire.AppendFrame(nil, pulsarwire.TypePong, nil))
		}
		return actPass, nil, nil
	default:
		return b.rewrite(command)
	}
}

// rewrite decides about the answers that carry addresses or bounds.
func (b *brokerSide) rewrite(command pulsarwire.Command) (action, []byte, error) {
	switch command.Type {
	case pulsarwire.TypeLookupResponse:
		frame, err := b.srv.rewriteLookup(command.Body)
		if frame == nil {
			return actPass, nil, err
		}
		return actReplace, frame, err
	case pulsarwire.TypeTopicMigrated:
		b.srv.o.Observer.Happened(EventMigrationSuppressed)
		return actSwallow, nil, nil
	case pulsarwire.TypeCloseProducer, pulsarwire.TypeCloseConsumer:
		m, err := pulsarwire.DecodeCloseProducer(command.Body)
		if err != nil {
			return actPass, nil, err
		}
		if command.Type == pulsarwire.TypeCloseProducer {
			b.closedByBroker(m.ProducerID)
		}
		if m.AssignedURL == "" && m.AssignedTLS == "" {
			return actPass, nil, nil
		}
		body, err := pulsarwire.DropFields(nil, command.Body, 3, 4) // the client looks the topic up again
		return actReplace, pulsarwire.AppendFrame(nil, command.Type, body), err
	case pulsarwire.TypeConnected:
		m, err := pulsarwire.DecodeConnected(command.Body)
		if err != nil || m.MaxMessageSize == b.srv.o.MaxMessageSize || (m.MaxMessageSize > 0 && m.MaxMessageSize < b.srv.o.MaxMessageSize) {
			return actPass, nil, err
		}
		body, err := pulsarwire.ReplaceMaxMessageSize(nil, command.Body, b.srv.o.MaxMessageSize)
		return actReplace, pulsarwire.AppendFrame(nil, command.Type, body), err
	default:
		return actPass, nil, nil
	}
}

// closedByBroker forgets a producer. The client sends again what had no receipt,
// so what is held is discarded; the broker would not know its producer.
func (s *session) closedByBroker(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.producers[id]; p != nil {
		s.dropLocked(p, limiter.Ignored)
	}
}

// keep implements inspector; nothing of a broker is held.
func (*brokerSide) keep([]byte) {}

// streamed implements inspector.
func (*brokerSide) streamed(int64) {}

// wait implements inspector; a broker is never paused.
func (*brokerSide) wait() error { return nil }
