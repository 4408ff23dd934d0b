package mongowire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// HeaderLen is the length of every frame's header in bytes.
const HeaderLen = 16

// Opcode is the kind of a frame.
type Opcode int32

// The opcodes of the wire protocol. Those from 2001 to 2007 are legacy; only
// OP_QUERY is still seen, as the first hello of a connection.
const (
	OpReply       Opcode = 1
	OpUpdate      Opcode = 2001
	OpInsert      Opcode = 2002
	OpQuery       Opcode = 2004
	OpGetMore     Opcode = 2005
	OpDelete      Opcode = 2006
	OpKillCursors Opcode = 2007
	OpCompressed  Opcode = 2012
	OpMsg         Opcode = 2013
)

// Request reports whether clients send frames of the opcode. Servers close the
// connection on any other.
func (op Opcode) Request() bool {
	switch op {
	case OpUpdate, OpInsert, OpQuery, OpGetMore, OpDelete, OpKillCursors, OpCompressed, OpMsg:
		return true
	}
	return false
}

// Flags of OP_MSG.
const (
	FlagChecksum       = 1 << 0
	FlagMoreToCome     = 1 << 1
	FlagExhaustAllowed = 1 << 16
)

// replyAwaitCapable is the flag of every OP_REPLY.
const replyAwaitCapable = 1 << 3

// ErrFrame is wrapped by every error about bytes that are not a frame.
var ErrFrame = errors.New("mongowire: malformed frame")

// Header is the header of a frame.
type Header struct {
	Length     int // of the whole frame, header included
	ID         int32
	ResponseTo int32
	Op         Opcode
}

// ReadHeader reads the header at the start of b, which holds at least 16
// bytes. A length outside [16, limit] is an error that wraps [ErrFrame].
func ReadHeader(b []byte, limit int) (Header, error) {
	h := Header{
		Length:     int(int32(binary.LittleEndian.Uint32(b))),
		ID:         int32(binary.LittleEndian.Uint32(b[4:])),
		ResponseTo: int32(binary.LittleEndian.Uint32(b[8:])),
		Op:         Opcode(binary.LittleEndian.Uint32(b[12:])),
	}
	if h.Length < HeaderLen || h.Length > limit {
		return h, fmt.Errorf("%w: length %d, want %d to %d", ErrFrame, h.Length, HeaderLen, limit)
	}
	return h, nil
}

// ReadFrame reads a frame, and its payload into buf, which grows when it must. An
// error wraps [ErrFrame] when the length is outside [16, limit]; io.EOF comes only
// between frames.
func ReadFrame(r io.Reader, buf []byte, limit int) (h Header, payload []byte, err error) {
	var head [HeaderLen]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return h, buf, err
	}
	if h, err = ReadHeader(head[:], limit); err != nil {
		return h, buf, err
	}
	n := h.Length - HeaderLen
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	if _, err = io.ReadFull(r, buf[:n]); errors.Is(err, io.EOF) && n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return h, buf[:n], err
}

// BeginMessage appends the start of a frame that carries the document that is
// appended next, of which [EndFrame] is the end: an OP_REPLY, or else an OP_MSG
// without flags.
func BeginMessage(dst []byte, h Header) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, 0) // EndFrame writes the length
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.ID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.ResponseTo))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.Op))
	if h.Op != OpReply {
		return append(dst, 0, 0, 0, 0, 0) // no flags; section of kind 0
	}
	dst = binary.LittleEndian.AppendUint32(dst, replyAwaitCapable)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)  // cursor
	return append(dst, 0, 0, 0, 0, 1, 0, 0, 0) // starting from 0, one document
}

// AppendMessage appends a frame that carries a document; see [BeginMessage].
func AppendMessage(dst []byte, h Header, document []byte) []byte {
	start := len(dst)
	return EndFrame(append(BeginMessage(dst, h), document...), start)
}

// EndFrame writes the length of the frame that began at start.
func EndFrame(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// Message is what the parts of a frame are, as far as its bytes are there.
type Message struct {
	Op        Opcode // the original one, when the frame is compressed
	Flags     uint32 // of OP_MSG, OP_QUERY or OP_REPLY
	Namespace []byte // of OP_QUERY: database.$cmd or database.collection
	Body      []byte // the document, perhaps cut short; nil when it is not there
	At        int    // offset of body in what was parsed
}

// ParseMessage finds the document in a frame's payload, the bytes behind the
// header, of which the end may be missing. ok is false when the document's
// start is not there.
func ParseMessage(op Opcode, p []byte) (m Message, ok bool) {
	m.Op = op
	switch op {
	case OpMsg:
		return m.msg(p)
	case OpQuery:
		return m.query(p)
	case OpReply:
		if len(p) < 20 {
			return m, false
		}
		m.Flags, m.Body, m.At = binary.LittleEndian.Uint32(p), p[20:], 20
		return m, len(m.Body) > 4
	default: // the others carry no document
		return m, false
	}
}

// msg parses the flags of an OP_MSG and finds its section of kind 0.
func (m Message) msg(p []byte) (Message, bool) {
	if len(p) < 5 {
		return m, false
	}
	m.Flags = binary.LittleEndian.Uint32(p)
	for i := 4; i < len(p); {
		if p[i] == 0 {
			m.Body, m.At = p[i+1:], i+1
			return m, len(m.Body) > 4
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
func (m Message) query(p []byte) (Message, bool) {
	if len(p) < 4 {
		return m, false
	}
	m.Flags = binary.LittleEndian.Uint32(p)
	ns, rest, ok := cstring(p[4:])
	if !ok || len(rest) < 8 {
		return m, false
	}
	m.Namespace, m.Body, m.At = ns, rest[8:], len(p)-len(rest)+8
	return m, len(m.Body) > 4
}
