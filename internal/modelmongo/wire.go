package modelmongo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// The opcodes that the model knows.
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

// maxFrame bounds a frame, in bytes.
const maxFrame = 48 << 20

// errFrame is wrapped by errors about bytes that the model does not understand.
var errFrame = errors.New("modelmongo: malformed frame")

// frame is one message.
type frame struct {
	id, responseTo int32
	op             int32
	more           bool // moreToCome
	doc            bsoncore.Document
	buf            []byte
}

// read reads one frame, reusing the frame's buffer. The document is valid until
// the next read.
func (f *frame) read(r io.Reader) error {
	var h [16]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return err
	}
	n := int(int32(binary.LittleEndian.Uint32(h[:])))
	if n < 16+5 || n > maxFrame {
		return fmt.Errorf("%w: length %d", errFrame, n)
	}
	f.id = int32(binary.LittleEndian.Uint32(h[4:]))
	f.responseTo = int32(binary.LittleEndian.Uint32(h[8:]))
	f.op = int32(binary.LittleEndian.Uint32(h[12:]))
	n -= 16
	if cap(f.buf) < n {
		f.buf = make([]byte, n)
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(r, f.buf); err != nil {
		return err
	}
	return f.parse()
}

// parse finds the document.
func (f *frame) parse() error {
	b := f.buf
	switch f.op {
	case opMsg:
		f.more = b[0]&2 != 0
		if b[4] != 0 {
			return fmt.Errorf("%w: section of kind %d comes first", errFrame, b[4])
		}
		b = b[5:]
	case opQuery:
		_, rest, ok := bsoncore.ReadKey(b[4:])
		if !ok || len(rest) < 8 {
			return errFrame
		}
		b = rest[8:]
	case opReply:
		if len(b) < 20 {
			return errFrame
		}
		b = b[20:]
	default:
		return fmt.Errorf("%w: opcode %d", errFrame, f.op)
	}
	doc, _, ok := bsoncore.ReadDocument(b)
	if !ok {
		return errFrame
	}
	f.doc = doc
	return nil
}

// appendFrame appends a frame that carries doc: OP_REPLY for op opReply, else
// OP_MSG.
func appendFrame(dst []byte, id, responseTo, op int32, doc []byte) []byte {
	prefix := []byte{0, 0, 0, 0, 0} // flags, section of kind 0
	if op == opReply {
		prefix = []byte{8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(16+len(prefix)+len(doc)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(id))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(responseTo))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(op))
	return append(append(dst, prefix...), doc...)
}
