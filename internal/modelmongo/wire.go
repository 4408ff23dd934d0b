package modelmongo

import (
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/mongowire"
)

// maxFrame bounds a frame, in bytes.
const maxFrame = 48 << 20

// frame is one message.
type frame struct {
	mongowire.Header

	more bool // moreToCome
	doc  bsoncore.Document
	buf  []byte
}

// read reads one frame, reusing the frame's buffer. The document is valid until
// the next read.
func (f *frame) read(r io.Reader) (err error) {
	if f.Header, f.buf, err = mongowire.ReadFrame(r, f.buf, maxFrame); err != nil {
		return err
	}
	m, ok := mongowire.ParseMessage(f.Op, f.buf)
	doc, _, whole := bsoncore.ReadDocument(m.Body)
	if !ok || !whole {
		return fmt.Errorf("%w: no document, opcode %d", mongowire.ErrFrame, f.Op)
	}
	f.more, f.doc = f.Op == mongowire.OpMsg && m.Flags&mongowire.FlagMoreToCome != 0, doc
	return nil
}
