package mongogate

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// headerLen is the length of every frame's header in bytes.
const headerLen = 16

// opcode is the kind of a frame.
type opcode int32

// The opcodes of the wire protocol. Those from 2001 to 2007 are legacy; only
// OP_QUERY is still seen, as the first hello of a connection.
const (
	opReply       opcode = 1
	opUpdate      opcode = 2001
	opInsert      opcode = 2002
	opQuery       opcode = 2004
	opGetMore     opcode = 2005
	opDelete      opcode = 2006
	opKillCursors opcode = 2007
	opCompressed  opcode = 2012
	opMsg         opcode = 2013
)

// Flags of OP_MSG.
const (
	flagChecksum       = 1 << 0
	flagMoreToCome     = 1 << 1
	flagExhaustAllowed = 1 << 16
)

// errFrame is wrapped by every error about bytes that are not a frame.
var errFrame = errors.New("mongogate: malformed frame")

// header is the header of a frame.
type header struct {
	length     int // of the whole frame, header included
	id         int32
	responseTo int32
	op         opcode
}

// readHeader reads the header at the start of b, which holds at least 16
// bytes. A length outside [16, limit] is an error that wraps errFrame.
func readHeader(b []byte, limit int) (header, error) {
	h := header{
		length:     int(int32(binary.LittleEndian.Uint32(b))),
		id:         int32(binary.LittleEndian.Uint32(b[4:])),
		responseTo: int32(binary.LittleEndian.Uint32(b[8:])),
		op:         opcode(binary.LittleEndian.Uint32(b[12:])),
	}
	if h.length < headerLen || h.length > limit {
		return h, fmt.Errorf("%w: length %d, want %d to %d", errFrame, h.length, headerLen, limit)
	}
	return h, nil
}

// appendHeader appends a header; the length is filled in by [endFrame].
func appendHeader(dst []byte, responseTo int32, op opcode) []byte {
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(responseTo))
	return binary.LittleEndian.AppendUint32(dst, uint32(op))
}

// endFrame writes the length of the frame that began at start.
func endFrame(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// message is what the parts of a frame are, as far as its bytes are there.
type message struct {
	op    opcode // the original one, when the frame is compressed
	flags uint32 // of OP_MSG, OP_QUERY or OP_REPLY
	ns    []byte // of OP_QUERY: database.$cmd or database.collection
	body  []byte // the document, perhaps cut short; nil when it is not there
	at    int    // offset of body in what was parsed
}

// parseMessage finds the document in a frame's payload, the bytes behind the
// header, of which the end may be missing. ok is false when the document's
// start is not there.
func parseMessage(op opcode, p []byte) (m message, ok bool) {
	m.op = op
	switch op {
	case opMsg:
		return m.msg(p)
	case opQuery:
		return m.query(p)
	case opReply:
		if len(p) < 20 {
			return m, false
		}
		m.flags, m.body, m.at = binary.LittleEndian.Uint32(p), p[20:], 20
		return m, len(m.body) > 4
	default: // the others carry no document
		return m, false
	}
}

// msg parses the flags of an OP_MSG and finds its section of kind 0.
func (m message) msg(p []byte) (message, bool) {
	if len(p) < 5 {
		return m, false
	}
	m.flags = binary.LittleEndian.Uint32(p)
	for i := 4; i < len(p); {
		if p[i] == 0 {
			m.body, m.at = p[i+1:], i+1
			return m, len(m.body) > 4
		}
		if p[i] != 1 || len(p) < i+5 {
			return m, false
		}
		n := int(int32(binary.LittleEndian.Uint32(p[i+1:])))
		if n < 5 || n > len(p) {
			return m, false
		}
		i += 1 + n
	}
	return m, false
}

// query parses an OP_QUERY.
func (m message) query(p []byte) (message, bool) {
	if len(p) < 4 {
		return m, false
	}
	m.flags = binary.LittleEndian.Uint32(p)
	ns, rest, ok := cstring(p[4:])
	if !ok || len(rest) < 8 {
		return m, false
	}
	m.ns, m.body, m.at = ns, rest[8:], len(p)-len(rest)+8
	return m, len(m.body) > 4
}
