package pulsargate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/admitd/admitd/pulsarwire"
)

const (
	// bufferSize is what one direction of a connection reads at once when it is
	// busy. Frames up to this size are looked at whole; larger ones are streamed.
	bufferSize = 32 << 10
	// idleSize is what it reads at once until a read fills it, and again after
	// calmAfter reads that would have fitted: ten thousand idle connections must
	// not cost 640 MiB.
	idleSize  = 4 << 10
	calmAfter = 256
	// maxCommand bounds the commands that the gate has to understand, in bytes.
	// Messages are not part of a command.
	maxCommand = 1 << 20
	// maxBrokerFrame bounds what a broker may send. It passes through without
	// being kept, so the bound only catches what cannot be a frame.
	maxBrokerFrame = 256 << 20
	// peekSize is how much of a command shows its type.
	peekSize = 16
)

// action is what happens to a frame.
type action uint8

// The actions.
const (
	actPass    action = iota // on to the other side, as it is
	actReplace               // something else goes to the other side in its place
	actSwallow               // it was meant for the gate
	actHold                  // it is kept, to be passed on later
	actPause                 // nothing more is read until it can be decided
)

// inspector decides about the frames of one direction. It is called by one
// goroutine, in the order of the frames.
type inspector interface {
	// whole reports whether the command that begins with prefix must be read to
	// its end before it can be decided.
	whole(prefix []byte) bool
	// inspect decides about one frame. cmd is valid during the call. With
	// actReplace the bytes are the frame that goes in its place.
	inspect(now int64, h pulsarwire.Header, cmd []byte) (action, []byte, error)
	// keep is handed the frame that inspect said to hold, nil when it never
	// arrived whole.
	keep(frame []byte)
	// streamed is called when a frame that passed before it had arrived whole has
	// gone on to its end.
	streamed(now int64)
	// wait returns when a paused frame is worth inspecting again.
	wait() error
}

// relay moves frames in one direction. Frames that pass side by side are written
// at once, from the buffer that they were read into.
type relay struct {
	src      net.Conn
	dst      *lane
	in       inspector
	now      func() int64
	maxFrame int
	patience time.Duration // for each begun MiB of a frame that is handled as it arrives; 0 = for ever
	left     int64         // ns that reading the rest of such a frame may still take
	reading  busy          // while the rest of a frame is awaited

	buf  []byte
	r, w int  // buf[r:w] has arrived and was not passed on
	calm int  // reads in a row that idleSize would have held
	last bool // nothing more is read but the rest of a frame that was begun
}

// run moves frames until one side ends, and returns why; io.EOF is a clean end.
func (r *relay) run() error {
	r.buf = make([]byte, idleSize)
	for {
		if err := r.fill(); err != nil {
			return err
		}
		if err := r.scan(); err != nil {
			return err
		}
	}
}

// fill reads what there is, at least one byte.
func (r *relay) fill() error {
	if r.last {
		return os.ErrDeadlineExceeded
	}
	switch {
	case r.r == r.w:
		r.r, r.w = 0, 0
		r.fit()
	case r.r > 0:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	partial := r.w > 0
	if partial {
		r.reading.begin()
	}
	n, err := r.src.Read(r.buf[r.w:])
	if partial {
		r.reading.end()
	}
	r.w += n
	if r.calm++; n > idleSize/2 {
		r.calm = 0
	}
	if r.w == len(r.buf) && r.w < bufferSize {
		r.grow(bufferSize)
	}
	if n > 0 {
		return nil
	}
	if partial && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fit gives an empty buffer the size that the traffic needs.
func (r *relay) fit() {
	if len(r.buf) > bufferSize || (len(r.buf) > idleSize && r.calm > calmAfter) {
		r.buf, r.calm = make([]byte, idleSize), 0
	}
}

// grow makes the buffer larger and keeps what is in it. Slices of the old one
// stay valid.
func (r *relay) grow(size int) {
	if size > len(r.buf) {
		r.buf = append(make([]byte, 0, size), r.buf[:r.w]...)[:size]
	}
}

// scan decides about every frame that has arrived.
func (r *relay) scan() error {
	now := r.now()
	for pos := r.r; ; {
		seen := r.buf[pos:r.w]
		h, ok, err := r.header(seen)
		if err != nil {
			return errors.Join(err, r.flush(pos))
		}
		if !ok {
			return r.flush(pos)
		}
		act, other, err := r.in.inspect(now, h, seen[pulsarwire.HeaderSize:min(pulsarwire.HeaderSize+h.Command, len(seen))])
		if err != nil {
			return errors.Join(err, r.flush(pos))
		}
		if act == actPass && h.Total <= len(seen) {
			pos += h.Total
			continue
		}
		if act == actPass {
			return r.stream(pos, h.Total)
		}
		if err := r.flush(pos); err != nil {
			return err
		}
		if err := r.divert(act, h, other); err != nil {
			return err
		}
		pos, now = r.r, r.now()
	}
}

// header reads the next frame's header. It is not ok before enough has arrived:
// the whole frame when it fits the buffer, else all that inspect needs to see.
func (r *relay) header(seen []byte) (h pulsarwire.Header, ok bool, err error) {
	if len(seen) < pulsarwire.HeaderSize {
		return h, false, nil
	}
	h, err = pulsarwire.ParseHeader(seen, r.maxFrame, r.maxFrame)
	switch {
	case err != nil:
		return h, false, err
	case len(seen) >= h.Total:
		return h, true, nil
	case h.Total <= bufferSize:
		if h.Total > len(r.buf) {
			r.grow(bufferSize)
		}
		return h, false, nil
	case len(seen) < pulsarwire.HeaderSize+peekSize:
		return h, false, nil
	case !r.in.whole(seen[pulsarwire.HeaderSize:min(len(seen), pulsarwire.HeaderSize+h.Command)]):
		return h, true, nil
	case h.Command > maxCommand:
		return h, false, fmt.Errorf("%w: command of %d bytes, at most %d", pulsarwire.ErrTooLarge, h.Command, maxCommand)
	}
	need := pulsarwire.HeaderSize + h.Command
	r.grow(need)
	return h, len(seen) >= need, nil
}

// divert does with the first frame of the buffer what inspect said, other than
// passing it on.
func (r *relay) divert(act action, h pulsarwire.Header, other []byte) error {
	switch act {
	case actPause:
		return r.in.wait()
	case actReplace:
		if err := r.dst.write(other); err != nil {
			return err
		}
	case actHold:
		frame, err := r.collect(h.Total)
		r.in.keep(frame)
		return err
	default:
	}
	if r.w-r.r < h.Total {
		return fmt.Errorf("%w: command with %d bytes behind it", pulsarwire.ErrMalformed, h.Total-h.Command)
	}
	r.r += h.Total
	return nil
}

// flush passes on what comes before pos.
func (r *relay) flush(pos int) error {
	if pos == r.r {
		return nil
	}
	err := r.dst.write(r.buf[r.r:pos])
	r.r = pos
	return err
}

// stream passes on what has arrived and the rest of the frame at pos as it
// arrives. Nobody else may write to that side until the frame is complete, and
// never again when it stays incomplete: what came next would be read as its rest.
func (r *relay) stream(pos, total int) (err error) {
	r.dst.take()
	defer func() {
		r.dst.torn = err != nil
		r.dst.give()
	}()
	left := total - (r.w - pos)
	r.expect(total)
	if err := r.dst.send(r.buf[r.r:r.w]); err != nil {
		return err
	}
	r.r, r.w = 0, 0
	for left > 0 {
		n, err := r.more(r.buf[:min(left, len(r.buf))])
		if errors.Is(err, os.ErrDeadlineExceeded) && !r.last {
			// Reading was stopped, but the other side has half of this frame.
			if r.last, err = true, r.src.SetReadDeadline(time.Time{}); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := r.dst.send(r.buf[:n]); err != nil {
			return err
		}
		left -= n
	}
	r.in.streamed(r.now())
	return nil
}

// collect takes the frame of total bytes at the head of the buffer into memory
// of its own, which grows only as the bytes arrive.
func (r *relay) collect(total int) ([]byte, error) {
	n := min(total, r.w-r.r)
	r.expect(total)
	frame := append(make([]byte, 0, n), r.buf[r.r:r.r+n]...)
	r.r += n
	for len(frame) < total {
		room := min(total-len(frame), max(len(frame), bufferSize))
		frame = slices.Grow(frame, room)
		n, err := r.more(frame[len(frame) : len(frame)+room])
		if err != nil {
			return nil, err
		}
		frame = frame[:len(frame)+n]
	}
	return frame, nil
}

// expect notes how long reading a frame of total bytes may take. A peer that sends it
// byte by byte does not stall, and yet holds a permit, or room, meanwhile.
func (r *relay) expect(total int) {
	if r.patience > 0 {
		r.left = int64(r.patience) * int64(1+total>>20)
	}
}

// more reads into b within a frame.
func (r *relay) more(b []byte) (int, error) {
	r.reading.begin()
	defer r.reading.end()
	begin := r.now()
	n, err := r.src.Read(b)
	if r.left -= r.now() - begin; r.left < 0 && r.patience > 0 {
		return 0, errStalled
	}
	if n > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}
