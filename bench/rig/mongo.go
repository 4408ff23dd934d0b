package rig

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Mongo is a client that asks for a document in the database db again and again,
// or writes one of size bytes.
func Mongo(db string, size int) Talk {
	hello := bsoncore.AppendStringElement(bsoncore.AppendInt32Element(nil, "hello", 1), "$db", "admin")
	ask := bsoncore.AppendStringElement(bsoncore.AppendStringElement(nil, "find", "orders"), "$db", db)
	if size > 0 {
		ask = bsoncore.AppendStringElement(bsoncore.AppendStringElement(nil, "insert", "orders"), "$db", db)
	}
	ask = bsoncore.AppendBinaryElement(ask, "comment", 0, make([]byte, max(size, 30)))
	return Talk{Hello: mongoFrame(hello), Request: mongoFrame(ask), Whole: func(b []byte) (bool, error) {
		if bytes.Contains(b, []byte("errmsg")) {
			return false, fmt.Errorf("refused: %q", b)
		}
		return len(b) >= 4 && len(b) >= int(binary.LittleEndian.Uint32(b)), nil
	}}
}

// mongoFrame returns an OP_MSG with a document of the elements.
func mongoFrame(elements []byte) []byte {
	doc := bsoncore.BuildDocument(nil, elements)
	b := binary.LittleEndian.AppendUint32(nil, uint32(21+len(doc)))
	b = append(b, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0, 0) // request 1, OP_MSG, no flags, a body
	return append(b, doc...)
}
