package pulsarwire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"
)

// magicChecksum comes before the checksum of a message.
const magicChecksum = 0x0e01

// castagnoli returns the table of CRC-32C; the package keeps it by itself.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Metadata is the part of a message's metadata that is required.
type Metadata struct {
	ProducerName string
	SequenceID   uint64
	PublishTime  uint64 // milliseconds since 1970
}

// AppendSendFrame appends a SEND with its metadata, payload and checksum.
func AppendSendFrame(dst []byte, s Send, m Metadata, payload []byte) []byte {
	start := len(dst)
	var scratch [128]byte
	dst = AppendFrame(dst, TypeSend, s.Append(scratch[:0]))
	dst = binary.BigEndian.AppendUint16(dst, magicChecksum)
	sum := len(dst)
	dst = append(dst, 0, 0, 0, 0) // the checksum
	dst = append(dst, 0, 0, 0, 0) // the size of the metadata
	meta := len(dst)
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), m.ProducerName)
	dst = appendUint(dst, 2, m.SequenceID)
	dst = appendUint(dst, 3, m.PublishTime)
	binary.BigEndian.PutUint32(dst[meta-4:], uint32(len(dst)-meta))
	dst = append(dst, payload...)
	binary.BigEndian.PutUint32(dst[sum:], crc32.Checksum(dst[sum+4:], castagnoli()))
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// VerifyMessage checks what follows the command of a SEND: the checksum, and
// that the metadata fits. It returns the payload.
func VerifyMessage(rest []byte) (payload []byte, err error) {
	if len(rest) < 10 || binary.BigEndian.Uint16(rest) != magicChecksum {
		return nil, fmt.Errorf("%w: message without a checksum", ErrMalformed)
	}
	want, body := binary.BigEndian.Uint32(rest[2:]), rest[6:]
	if got := crc32.Checksum(body, castagnoli()); got != want {
		return nil, fmt.Errorf("%w: checksum %#x, want %#x", ErrMalformed, got, want)
	}
	size := uint64(binary.BigEndian.Uint32(body))
	if size+4 > uint64(len(body)) {
		return nil, fmt.Errorf("%w: metadata of %d bytes in %d", ErrMalformed, size, len(body))
	}
	return body[4+size:], nil
}
