package pulsargate

import (
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// Landed implements [relay.Protocol].
func (s *session) Landed(r *relay.Session, m relay.Message) (relay.Verdict, error) {
	cmd, ok := command(&m)
	if !understood(cmd) {
		return relay.Verdict{}, nil
	}
	if !ok {
		return relay.Verdict{Action: relay.More}, nil
	}
	c, err := pulsarwire.ParseCommand(cmd)
	if err != nil {
		return relay.Verdict{}, err
	}
	switch c.Type {
	case pulsarwire.TypeSendReceipt:
		r.Responded(false)
		d, err := pulsarwire.DecodeSendReceipt(c.Body)
		return relay.Verdict{Last: err == nil && s.landed(d.ProducerID, d.SequenceID, limiter.Success)}, err
	case pulsarwire.TypeSendError:
		r.Responded(true)
		d, err := pulsarwire.DecodeSendError(c.Body)
		return relay.Verdict{Last: err == nil && s.landed(d.ProducerID, d.SequenceID, judge(d.Code))}, err
	case pulsarwire.TypeProducerSuccess, pulsarwire.TypeSuccess, pulsarwire.TypeError:
		r.Responded(c.Type == pulsarwire.TypeError)
		id, err := pulsarwire.DecodeRequestID(c.Body, 1)
		if err == nil {
			err = s.answered(id, c.Type)
		}
		return relay.Verdict{}, err
	case pulsarwire.TypePing:
		if s.pause.on.Load() { // the client's own answer waits behind what is not read
			return relay.Verdict{}, r.Send(pulsarwire.AppendFrame(nil, pulsarwire.TypePong, nil))
		}
		return relay.Verdict{}, nil
	case pulsarwire.TypeCloseProducer:
		if d, err := pulsarwire.DecodeCloseProducer(c.Body); err == nil {
			s.closedByBroker(d.ProducerID)
		}
	default:
	}
	return s.o.rewrite(c)
}

// landed records the receipt of a message, or its failure. last says that it was
// the last that whoever ends the session waited for.
func (s *session) landed(id, sequence uint64, outcome limiter.Outcome) (last bool) {
	now := s.r.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var fl flight
	found := false
	if p := s.book.producers[id]; p != nil {
		fl, found = p.flights.pop(sequence)
	}
	if !found {
		s.o.Observer.Happened(EventSendReceiptUnknown)
		return false
	}
	s.room.inFlight--
	fl.permit.EndSampled(time.Duration(max(now-fl.start, 1)), outcome)
	s.pause.signalLocked()
	return s.room.inFlight == 0 && (s.left || s.r.Draining())
}

// answered settles the request with the given id. The error says that the client
// gave two requests the same id, so that a producer which the gate takes for
// refused exists.
func (s *session) answered(id uint64, t pulsarwire.Type) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	over, err := s.book.answer(id, t, s.srv.limits.Load().MaxProducers)
	if over != nil {
		over.dropLocked(limiter.Ignored)
	}
	return err
}

// closedByBroker forgets a producer. The client sends again what had no receipt,
// so what is held is discarded; the broker would not know its producer.
func (s *session) closedByBroker(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.book.producers[id]; p != nil {
		p.dropLocked(limiter.Ignored)
	}
}

// rewrite decides about the answers that carry addresses or bounds.
func (s *settings) rewrite(c pulsarwire.Command) (relay.Verdict, error) {
	var body []byte
	var err error
	switch c.Type {
	case pulsarwire.TypeLookupResponse:
		body, err = s.rewriteLookup(c.Body)
	case pulsarwire.TypeTopicMigrated:
		s.Observer.Happened(EventMigrationSuppressed)
		return relay.Verdict{Action: relay.Swallow}, nil
	case pulsarwire.TypeScalableTopicUpdate, pulsarwire.TypeTCAssignmentsUpdate:
		s.Observer.Happened(EventAddressesSuppressed)
		return relay.Verdict{Action: relay.Swallow}, nil
	case pulsarwire.TypeCloseProducer, pulsarwire.TypeCloseConsumer:
		body, err = withoutAddresses(c.Body)
	case pulsarwire.TypeConnected:
		body, err = s.welcome(c.Body)
	default:
	}
	if body == nil || err != nil {
		return relay.Verdict{}, err
	}
	return relay.Verdict{Instead: pulsarwire.AppendFrame(nil, c.Type, body)}, nil
}

// withoutAddresses returns the end of a producer or consumer without the broker
// that it is handed to, so that the client looks the topic up again; nil when
// none is named.
func withoutAddresses(body []byte) ([]byte, error) {
	m, err := pulsarwire.DecodeCloseProducer(body)
	if err != nil || m.AssignedURL == "" && m.AssignedTLS == "" {
		return nil, err
	}
	return pulsarwire.DropFields(nil, body, 3, 4)
}

// welcome returns a CONNECTED that promises no larger messages than the gate lets
// through, and nothing by which brokers name addresses that it does not rewrite;
// nil when the broker's does neither.
func (s *settings) welcome(body []byte) ([]byte, error) {
	m, err := pulsarwire.DecodeConnected(body)
	if err != nil {
		return nil, err
	}
	kept, stripped, err := pulsarwire.StripConnected(nil, body)
	switch {
	case err != nil:
		return nil, err
	case m.MaxMessageSize <= 0 || m.MaxMessageSize > s.MaxMessageSize:
		return pulsarwire.ReplaceMaxMessageSize(nil, kept, s.MaxMessageSize)
	case stripped:
		return kept, nil
	}
	return nil, nil
}
