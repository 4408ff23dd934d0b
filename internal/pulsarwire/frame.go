package pulsarwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of the protocol, in bytes.
const (
	// HeaderSize is the fixed part of a frame: its two length fields.
	HeaderSize = 8
	// DefaultMaxMessageSize is what brokers allow unless they say otherwise.
	DefaultMaxMessageSize = 5 << 20
	// FramePadding is what a frame may have beyond the largest message.
	FramePadding = 10 << 10
)

// The errors of this package, wrapped with the numbers that were wrong.
var (
	// ErrTooLarge is returned for a frame or a command above its bound.
	ErrTooLarge = errors.New("pulsarwire: too large")
	// ErrMalformed is returned for bytes that are not a frame or a command.
	ErrMalformed = errors.New("pulsarwire: malformed")
)

// Header is the fixed part of a frame.
type Header struct {
	Total   int // bytes of the whole frame, header included
	Command int // bytes of the command
}

// ParseHeader reads the first [HeaderSize] bytes of a frame. maxFrame bounds the
// whole frame and maxCommand its command, in bytes; nothing has been allocated
// when they are exceeded. It panics when b is shorter than HeaderSize.
func ParseHeader(b []byte, maxFrame, maxCommand int) (Header, error) {
	total := uint64(binary.BigEndian.Uint32(b)) + 4
	command := uint64(binary.BigEndian.Uint32(b[4:HeaderSize]))
	switch {
	case total > uint64(maxFrame):
		return Header{}, fmt.Errorf("%w: frame of %d bytes, at most %d", ErrTooLarge, total, maxFrame)
	case command > uint64(maxCommand):
		return Header{}, fmt.Errorf("%w: command of %d bytes, at most %d", ErrTooLarge, command, maxCommand)
	case total < HeaderSize || command+HeaderSize > total:
		return Header{}, fmt.Errorf("%w: frame of %d bytes holds a command of %d", ErrMalformed, total, command)
	case command == 0:
		return Header{}, fmt.Errorf("%w: empty command", ErrMalformed)
	}
	return Header{Total: int(total), Command: int(command)}, nil
}

// AppendFrame appends a frame that holds a command of the given type, whose
// encoded body is body, and no rest.
func AppendFrame(dst []byte, t Type, body []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = appendCommand(dst, t, body)
	size := len(dst) - start - HeaderSize
	binary.BigEndian.PutUint32(dst[start:], uint32(size)+4)
	binary.BigEndian.PutUint32(dst[start+4:], uint32(size))
	return dst
}
