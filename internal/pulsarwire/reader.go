package pulsarwire

import (
	"errors"
	"fmt"
	"io"
)

// Frame is one frame, read whole.
type Frame struct {
	Command
	Rest []byte // what follows the command; empty but for SEND and MESSAGE
}

// Reader reads whole frames. It is not safe for concurrent use.
type Reader struct {
	r   io.Reader
	max int
	buf []byte
}

// NewReader returns a Reader of r, which should be buffered. maxFrame bounds a frame
// in bytes; 0 = the protocol's default.
func NewReader(r io.Reader, maxFrame int) *Reader {
	if maxFrame <= 0 {
		maxFrame = DefaultMaxMessageSize + FramePadding
	}
	return &Reader{r: r, max: maxFrame, buf: make([]byte, HeaderSize, 1<<10)}
}

// Next returns the next frame, which is valid until the call after. io.EOF
// appears only between frames; within one it is io.ErrUnexpectedEOF.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.buf[:HeaderSize]); err != nil {
		return Frame{}, err
	}
	h, err := ParseHeader(r.buf[:HeaderSize], r.max, r.max)
	if err != nil {
		return Frame{}, err
	}
	if cap(r.buf) < h.Total {
		r.buf = append(make([]byte, 0, h.Total), r.buf[:HeaderSize]...)
	}
	b := r.buf[:h.Total]
	if _, err := io.ReadFull(r.r, b[HeaderSize:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, fmt.Errorf("pulsarwire: frame of %d bytes: %w", h.Total, err)
	}
	c, err := ParseCommand(b[HeaderSize : HeaderSize+h.Command])
	return Frame{Command: c, Rest: b[HeaderSize+h.Command:]}, err
}
