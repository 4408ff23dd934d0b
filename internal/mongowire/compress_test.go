package mongowire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/golang/snappy"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/admitd/admitd/internal/mongowire"
)

// compressed is the payload of an OP_COMPRESSED.
func compressed(algorithm byte, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(mongowire.OpMsg))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(payload))), algorithm)
	switch algorithm {
	case 1:
		return append(b, snappy.Encode(nil, payload)...)
	case 2:
		z := bytes.NewBuffer(b)
		w := zlib.NewWriter(z)
		_, _ = w.Write(payload)
		_ = w.Close()
		return z.Bytes()
	case 3:
		w, _ := zstd.NewWriter(nil)
		return w.EncodeAll(payload, b)
	}
	return append(b, payload...)
}

// What is opened of a compressed frame is bounded, and where the library packed
// it, it is the start of what was packed, however much of the frame is there.
func FuzzCompressedPrefix(f *testing.F) {
	for a := range byte(5) {
		f.Add(a, doc(find()), 40, false)
		f.Add(a, bytes.Repeat([]byte("abcdefgh"), 20_000), 500, true)
	}
	f.Fuzz(func(t *testing.T, algorithm byte, data []byte, have int, pack bool) {
		p := append(binary.LittleEndian.AppendUint32([]byte{0xdd, 7, 0, 0}, uint32(len(data))), algorithm)
		p = append(p, data...)
		if pack = pack && algorithm < 4 && len(data) > 0; pack {
			p = compressed(algorithm, data)
		}
		have = max(0, min(have, len(p)))
		var o mongowire.Opener
		opened := o.Open(p[:have], have == len(p))
		defer o.Release()
		b, whole, ok := opened.Bytes, opened.Whole, opened.OK
		if len(b) > mongowire.OpenedMax || (have == len(p) && !whole) {
			t.Fatalf("%d bytes opened, whole %v, of a frame that is there to %d of %d", len(b), whole, have, len(p))
		}
		if !pack {
			return
		}
		if !bytes.HasPrefix(data, b) {
			t.Fatalf("opened %d bytes that were not packed", len(b))
		}
		if have == len(p) && (!ok || len(b) != min(len(data), mongowire.OpenedMax)) {
			t.Fatalf("opened %d of %d bytes, ok %v", len(b), len(data), ok)
		}
	})
}

// The prefix decoder agrees with the library.
func FuzzSnappyPrefix(f *testing.F) {
	f.Add(snappy.Encode(nil, bytes.Repeat([]byte("abcd"), 50)), 30)
	f.Fuzz(func(t *testing.T, packed []byte, n int) {
		dst := make([]byte, max(0, min(n, 1<<16)))
		got, err := mongowire.SnappyPrefix(dst, packed)
		if got > len(dst) {
			t.Fatalf("%d bytes into %d", got, len(dst))
		}
		if size, e := snappy.DecodedLen(packed); e != nil || size > 1<<20 {
			return
		}
		want, e := snappy.Decode(nil, packed)
		if e != nil {
			return
		}
		if err != nil || !bytes.Equal(dst[:got], want[:min(len(want), len(dst))]) {
			t.Fatalf("prefix differs from the library's: %v", err)
		}
	})
}

// The prefix decoder agrees with the library on every prefix.
func TestSnappyPrefix(t *testing.T) {
	plain := bytes.Repeat([]byte("backpressure "), 500)
	plain = append(plain, doc(find())...)
	packed := snappy.Encode(nil, plain)
	for _, n := range []int{0, 1, 5, 60, 1000, len(plain)} {
		dst := make([]byte, n)
		got, err := mongowire.SnappyPrefix(dst, packed)
		if err != nil || got != n || !bytes.Equal(dst, plain[:n]) {
			t.Errorf("prefix of %d bytes: %d, %v; want the same bytes", n, got, err)
		}
	}
}

// A literal of more than 60 bytes tells its length in the bytes behind its tag.
func TestSnappyLongLiteral(t *testing.T) {
	for _, n := range []int{59, 60, 61, 62, 255, 256, 257, 65_536, 65_537} {
		plain := make([]byte, n)
		x := uint32(1)
		for i := range plain { // nothing repeats, so that all of it is a literal
			x = x*1664525 + 1013904223
			plain[i] = byte(x >> 24)
		}
		dst := make([]byte, n)
		if got, err := mongowire.SnappyPrefix(dst, snappy.Encode(nil, plain)); err != nil || got != n || !bytes.Equal(dst, plain) {
			t.Errorf("a literal of %d bytes: %d, %v; want the same bytes", n, got, err)
		}
	}
	if n, err := mongowire.SnappyPrefix(make([]byte, 8), nil); n != 0 || !errors.Is(err, mongowire.ErrFrame) {
		t.Errorf("a block without its length: %d, %v; want %v", n, err, mongowire.ErrFrame)
	}
	if n, err := mongowire.SnappyPrefix(make([]byte, 8), bytes.Repeat([]byte{0xff}, 11)); n != 0 || !errors.Is(err, mongowire.ErrFrame) {
		t.Errorf("a block whose length does not end: %d, %v; want %v", n, err, mongowire.ErrFrame)
	}
}

// More of a frame does not help with a compressor that nobody knows, and does with
// one of which nothing can be opened yet.
func TestOpenNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		algorithm byte
		data      []byte
		want      mongowire.Opened
	}{
		"unknown compressor": {9, []byte("whatever"), mongowire.Opened{Op: mongowire.OpMsg, Whole: true}},
		"snappy, no length":  {1, nil, mongowire.Opened{Op: mongowire.OpMsg}},
		"zlib, no header":    {2, nil, mongowire.Opened{Op: mongowire.OpMsg}},
	} {
		var o mongowire.Opener
		p := append(binary.LittleEndian.AppendUint32([]byte{0xdd, 7, 0, 0}, 100), tc.algorithm)
		if got := o.Open(append(p, tc.data...), false); !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %+v; want %+v", name, got, tc.want)
		}
		o.Release()
	}
}
