package mongowire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// The compressors of OP_COMPRESSED.
const (
	compressNone   = 0
	compressSnappy = 1
	compressZlib   = 2
	compressZstd   = 3
)

// Opener looks into the start of compressed frames. What is forwarded is the
// frame as it came. An opener belongs to one goroutine. It holds a buffer from
// the first frame that it opens until it is released.
type Opener struct {
	buf *[openedMax]byte // nil = none
}

// openedPool holds buffers of openers.
var openedPool = sync.Pool{New: func() any { return new([openedMax]byte) }} //nolint:gochecknoglobals // a pool is a cache, not state

// Release gives the buffer back. What was opened is gone.
func (o *Opener) Release() {
	if o.buf != nil {
		openedPool.Put(o.buf)
		o.buf = nil
	}
}

// openedMax bounds what is decompressed of a frame, in bytes.
const openedMax = 64 << 10

// Opened is the start of what a compressed frame holds.
type Opened struct {
	Op    Opcode // the original one
	Bytes []byte // valid until the next call of [Opener.Open] or [Opener.Release]
	Whole bool   // more input would not change it
	Cut   bool   // what is held is longer
	OK    bool   // Bytes is there
}

// Open decompresses the start of an OP_COMPRESSED payload, at most 64 KiB: the
// original opcode, the length, the algorithm, and the data, of which the end may
// be missing unless it is complete.
func (o *Opener) Open(p []byte, complete bool) Opened {
	if len(p) < 9 {
		return Opened{Whole: complete}
	}
	op := Opcode(binary.LittleEndian.Uint32(p))
	size := int(int32(binary.LittleEndian.Uint32(p[4:])))
	if size < 0 || op == OpCompressed {
		return Opened{Op: op, Whole: true}
	}
	want := min(size, openedMax)
	if o.buf == nil {
		o.buf = openedPool.Get().(*[openedMax]byte)
	}
	n, err := decompress(p[8], o.buf[:want], p[9:])
	if n == 0 && err != nil {
		return Opened{Op: op, Whole: complete || errors.Is(err, errCompressor)}
	}
	// A document that is longer than what was opened can be decided about
	// with what there is: waiting for more would not change the answer.
	return Opened{Op: op, Bytes: o.buf[:n], Whole: complete || n == want, Cut: n == want && want < size, OK: true}
}

// errCompressor is returned for an algorithm that does not exist.
var errCompressor = errors.New("mongowire: unknown compressor")

// decompress fills dst from the start of src, as far as it goes.
func decompress(algorithm byte, dst, src []byte) (int, error) {
	switch algorithm {
	case compressNone:
		return copy(dst, src), nil
	case compressSnappy:
		return snappyPrefix(dst, src)
	case compressZlib:
		return inflate(dst, src)
	case compressZstd:
		return unzstd(dst, src)
	}
	return 0, errCompressor
}

// Pools of decoders; they hold tables that are dear to make.
var (
	zlibPool sync.Pool //nolint:gochecknoglobals // a pool is a cache, not state
	zstdPool sync.Pool //nolint:gochecknoglobals // a pool is a cache, not state
)

// inflate decompresses zlib.
func inflate(dst, src []byte) (int, error) {
	in := bytes.NewReader(src)
	r, ok := zlibPool.Get().(io.ReadCloser)
	var err error
	if ok {
		err = r.(zlib.Resetter).Reset(in, nil) // every zlib reader is a Resetter
	} else {
		r, err = zlib.NewReader(in)
	}
	if err != nil {
		return 0, err
	}
	defer zlibPool.Put(r)
	return io.ReadFull(r, dst)
}

// unzstd decompresses zstd.
func unzstd(dst, src []byte) (int, error) {
	in := bytes.NewReader(src)
	d, ok := zstdPool.Get().(*zstd.Decoder)
	var err error
	if ok {
		err = d.Reset(in)
	} else {
		d, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(8<<20))
	}
	if err != nil {
		return 0, err
	}
	defer zstdPool.Put(d)
	return io.ReadFull(d, dst)
}

// snappyPrefix decompresses the snappy block format until dst is full or src
// ends. The library's decoder wants the whole block at once.
func snappyPrefix(dst, src []byte) (int, error) {
	_, n := binary.Uvarint(src)
	if n <= 0 {
		return 0, ErrFrame
	}
	src = src[n:]
	d := 0
	for len(src) > 0 && d < len(dst) {
		length, offset, used := snappyTag(src)
		if used == 0 {
			return d, io.ErrUnexpectedEOF
		}
		src = src[used:]
		if offset == 0 { // literal
			c := copy(dst[d:], src[:min(length, len(src))])
			src = src[min(length, len(src)):]
			d += c
			continue
		}
		if offset < 0 || offset > d {
			return d, ErrFrame
		}
		for range min(length, len(dst)-d) { // may overlap itself
			dst[d] = dst[d-offset]
			d++
		}
	}
	return d, nil
}

// snappyTag reads one tag: a literal has offset 0. A copy with offset 0 in the
// input is reported as -1. used is 0 when the tag is cut short.
func snappyTag(src []byte) (length, offset, used int) {
	tag := src[0]
	switch tag & 3 {
	case 0:
		n := int(tag >> 2)
		if n < 60 {
			return n + 1, 0, 1
		}
		extra := n - 59
		if len(src) < 1+extra {
			return 0, 0, 0
		}
		n = 0
		for i := range extra {
			n |= int(src[1+i]) << (8 * i)
		}
		return n + 1, 0, 1 + extra
	case 1:
		if len(src) < 2 {
			return 0, 0, 0
		}
		offset = int(tag>>5)<<8 | int(src[1])
		length, used = int(tag>>2)&7+4, 2
	case 2:
		if len(src) < 3 {
			return 0, 0, 0
		}
		offset = int(binary.LittleEndian.Uint16(src[1:]))
		length, used = int(tag>>2)+1, 3
	default:
		if len(src) < 5 {
			return 0, 0, 0
		}
		offset = int(int32(binary.LittleEndian.Uint32(src[1:])))
		length, used = int(tag>>2)+1, 5
	}
	if offset == 0 {
		offset = -1
	}
	return length, offset, used
}
