package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/admitd/admitd/bench/rig"
)

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
