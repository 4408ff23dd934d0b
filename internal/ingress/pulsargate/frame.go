package pulsargate

import (
	"fmt"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
)

const (
	// wholeFrame is the size in bytes up to which a frame is looked at whole;
	// larger ones are passed on as they come.
	wholeFrame = 32 << 10
	// maxCommand bounds the commands that the gate has to understand, in bytes.
	// Messages are not part of a command.
	maxCommand = 1 << 20
	// maxBrokerFrame bounds what a broker may send. It passes through without
	// being kept, so the bound only catches what cannot be a frame.
	maxBrokerFrame = 256 << 20
	// peekSize is how much of a command shows its type.
	peekSize = 16
)

// Size implements [relay.Protocol]. A client's command is always seen to its
// end: one that hid its type behind its body would otherwise evade the limits.
func (s *session) Size(from relay.Side, b []byte) (total, need int, err error) {
	if len(b) < pulsarwire.HeaderSize {
		return 0, 0, nil
	}
	bound := maxBrokerFrame
	switch {
	case from == relay.Client && s.r == nil:
		bound = maxCommand
	case from == relay.Client:
		bound = s.o.maxFrame()
	}
	h, err := pulsarwire.ParseHeader(b, bound, bound)
	switch {
	case err != nil && from == relay.Client && s.r == nil && b[0] == 0x16 && b[1] == 3: // a handshake record
		return 0, 0, fmt.Errorf("%w: the client begins TLS, and the ingress has no tls", pulsarwire.ErrMalformed)
	case err != nil:
		return 0, 0, err
	case h.Total <= wholeFrame:
		return h.Total, h.Total, nil
	case from == relay.Backend && len(b) < pulsarwire.HeaderSize+peekSize:
		return h.Total, pulsarwire.HeaderSize + peekSize, nil
	case from == relay.Backend && !understood(b[pulsarwire.HeaderSize:min(len(b), pulsarwire.HeaderSize+h.Command)]):
		return h.Total, pulsarwire.HeaderSize, nil
	case h.Command > maxCommand:
		return 0, 0, fmt.Errorf("%w: command of %d bytes, at most %d", pulsarwire.ErrTooLarge, h.Command, maxCommand)
	}
	return h.Total, pulsarwire.HeaderSize + h.Command, nil
}

// command returns the bytes of a frame's command, or as many as are shown. ok is
// false when the rest must be there first.
func command(m *relay.Message) (cmd []byte, ok bool) {
	h, err := pulsarwire.ParseHeader(m.Bytes, m.Total, m.Total)
	if err != nil {
		return nil, true // Size has refused it
	}
	end := pulsarwire.HeaderSize + h.Command
	return m.Bytes[pulsarwire.HeaderSize:min(end, len(m.Bytes))], end <= len(m.Bytes)
}

// understood reports whether the gate has to understand a broker's command, of
// which prefix is the beginning.
func understood(prefix []byte) bool {
	t, ok := pulsarwire.PeekType(prefix)
	if !ok {
		return true
	}
	switch t {
	case pulsarwire.TypeConnected, pulsarwire.TypeSendReceipt, pulsarwire.TypeSendError, pulsarwire.TypeSuccess,
		pulsarwire.TypeError, pulsarwire.TypeCloseProducer, pulsarwire.TypeCloseConsumer, pulsarwire.TypeProducerSuccess,
		pulsarwire.TypeLookupResponse, pulsarwire.TypeTopicMigrated, pulsarwire.TypeScalableTopicUpdate,
		pulsarwire.TypeTCAssignmentsUpdate, pulsarwire.TypePing:
		return true
	default:
		return false
	}
}
