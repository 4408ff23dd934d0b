package mongogate

import (
	"encoding/binary"
	"fmt"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/mongowire"
)

const (
	// judgedMax is the longest reply, in bytes, that is held back until all of
	// it is there so that it can be judged. Errors are shorter.
	judgedMax = 4 << 10
	// startMin is the shortest start of a longer reply that is looked at, in
	// bytes: its flags must be there.
	startMin = 64
)

// Size implements [relay.Protocol].
func (ses *session) Size(from relay.Side, b []byte) (total, need int, err error) {
	if len(b) < mongowire.HeaderLen {
		return 0, 0, nil
	}
	h, err := mongowire.ReadHeader(b, ses.o.MaxMessageBytes)
	if from == relay.Client && (err != nil || !h.Op.Request()) {
		return 0, 0, notRequest(h, b, err)
	}
	if err != nil {
		return 0, 0, err
	}
	if from == relay.Backend && h.Length > judgedMax {
		return h.Length, startMin, nil
	}
	return h.Length, h.Length, nil
}

// notRequest returns why the frame that begins with b, of which reading the header h
// returned err, is none that clients send. Nothing of it reaches the backend.
func notRequest(h mongowire.Header, b []byte, err error) error {
	const handshake, clientHello = 0x16, 1
	if b[0] == handshake && b[1] == 3 && b[5] == clientHello && b[9] == 3 {
		return fmt.Errorf("%w: the client begins TLS, and the ingress has no tls", mongowire.ErrFrame)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: opcode %d, length %d", mongowire.ErrFrame, h.Op, h.Length)
}

// replyQueryFailure is a flag of OP_REPLY.
const replyQueryFailure = 1 << 1

// beginReply appends the start of the frame that replies to a request with
// the document that is appended next: OP_REPLY to legacy requests, OP_MSG to
// everything else. It is never compressed, which clients accept.
// [mongowire.EndFrame] ends it.
func beginReply(dst []byte, requestID int32, op mongowire.Opcode) []byte {
	h := mongowire.Header{ResponseTo: requestID, Op: mongowire.OpMsg}
	if legacy(op) {
		h.Op = mongowire.OpReply
	}
	return mongowire.BeginMessage(dst, h)
}

// legacy reports whether requests of the opcode are answered by OP_REPLY.
func legacy(op mongowire.Opcode) bool { return op == mongowire.OpQuery || op == mongowire.OpGetMore }

// newReply returns the whole frame that replies with doc.
func newReply(requestID int32, op mongowire.Opcode, doc []byte) []byte {
	return mongowire.EndFrame(append(beginReply(make([]byte, 0, mongowire.HeaderLen+20+len(doc)), requestID, op), doc...), 0)
}

// markQueryFailure turns the OP_REPLY at the start of frame into the failure
// of a legacy query, which is no command.
func markQueryFailure(frame []byte) {
	frame[mongowire.HeaderLen] |= replyQueryFailure
}

// rebuild returns the reply's frame with another document. A compressed reply
// becomes a plain one.
func rebuild(h mongowire.Header, b []byte, m *mongowire.Message, doc []byte) []byte {
	if h.Op != mongowire.OpCompressed {
		return replaceBody(nil, b, m, doc)
	}
	frame := newReply(h.ResponseTo, mongowire.OpMsg, doc)
	frame[mongowire.HeaderLen+2] = byte(m.Flags >> 16)
	frame[mongowire.HeaderLen] = byte(m.Flags &^ mongowire.FlagChecksum)
	return frame
}

// documentLen returns the length of the document at the start of b, at most
// len(b).
func documentLen(b []byte) int {
	if len(b) < 4 {
		return len(b)
	}
	return min(len(b), max(0, int(int32(binary.LittleEndian.Uint32(b)))))
}

// replaceBody returns the reply frame with another document in place of the
// one that m describes, appended to dst. A checksum is left out.
func replaceBody(dst, frame []byte, m *mongowire.Message, doc []byte) []byte {
	start := len(dst)
	dst = append(dst, frame[:mongowire.HeaderLen+m.At]...)
	dst = append(dst, doc...)
	if m.Op == mongowire.OpMsg {
		dst[start+mongowire.HeaderLen] &^= mongowire.FlagChecksum
	}
	return mongowire.EndFrame(dst, start)
}
