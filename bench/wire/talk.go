package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/bench/rig"
)

// mongoTalk is a client that finds a document of 30 bytes again and again.
func mongoTalk() rig.Talk {
	hello := bsoncore.AppendStringElement(bsoncore.AppendInt32Element(nil, "hello", 1), "$db", "admin")
	find := bsoncore.AppendStringElement(bsoncore.AppendStringElement(nil, "find", "orders"), "$db", "shop")
	find = bsoncore.AppendStringElement(find, "comment", "the same words again and again")
	return rig.Talk{Hello: mongoFrame(hello), Request: mongoFrame(find), Whole: func(b []byte) (bool, error) {
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

// postgresTalk is a client that runs one simple query again and again.
func postgresTalk() rig.Talk {
	words := "user\x00bench\x00application_name\x00bench\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(words)))
	hello = append(binary.BigEndian.AppendUint32(hello, 3<<16), words...)
	query := "select abalance from accounts where aid = 4711\x00"
	request := append(binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(query))), query...)
	return rig.Talk{Hello: hello, Request: request, Whole: func(b []byte) (bool, error) {
		if b[0] == 'E' {
			return false, fmt.Errorf("refused: %q", b)
		}
		return bytes.HasSuffix(b, []byte("Z\x00\x00\x00\x05I")), nil
	}}
}
