package mongowire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/mongowire"
)

// What is written is read again, also into a buffer that a longer frame has left,
// and nothing beyond the bound is.
func TestReadFrame(t *testing.T) {
	body := doc(find())
	var buf []byte
	for _, want := range []mongowire.Header{
		{ID: 7, ResponseTo: 3, Op: mongowire.OpMsg},
		{ID: -1, ResponseTo: 9, Op: mongowire.OpReply},
	} {
		for _, d := range [][]byte{body, doc(bson.D{})} {
			frame := mongowire.AppendMessage([]byte("before"), want, d)[len("before"):]
			want.Length = len(frame)
			h, payload, err := mongowire.ReadFrame(bytes.NewReader(frame), buf, len(frame))
			if buf = payload; err != nil || h != want {
				t.Fatalf("ReadFrame = %+v, %v; want %+v", h, err, want)
			}
			if m, ok := mongowire.ParseMessage(h.Op, payload); !ok || !bytes.Equal(m.Body, d) || m.Flags&mongowire.FlagMoreToCome != 0 {
				t.Errorf("ParseMessage = %+v, %v; want the document alone", m, ok)
			}
			if _, _, err := mongowire.ReadFrame(bytes.NewReader(frame), nil, len(frame)-1); !errors.Is(err, mongowire.ErrFrame) {
				t.Errorf("a frame beyond the bound: %v, want %v", err, mongowire.ErrFrame)
			}
			for _, n := range []int{1, mongowire.HeaderLen, len(frame) - 1} {
				if _, _, err := mongowire.ReadFrame(bytes.NewReader(frame[:n]), nil, len(frame)); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("a frame that is cut off after %d bytes: %v, want %v", n, err, io.ErrUnexpectedEOF)
				}
			}
		}
	}
	if _, _, err := mongowire.ReadFrame(bytes.NewReader(nil), nil, 64); !errors.Is(err, io.EOF) {
		t.Errorf("between frames: %v, want %v", err, io.EOF)
	}
}

// A section that is shorter than its own length field, or longer than the frame, is no
// section. One of length -1 was looked at for ever, had the bound not been there.
func TestSectionLengths(t *testing.T) {
	body := append([]byte{0}, doc(find())...)
	for n, ok := range map[uint32]bool{4: false, 5: true, 8: true, 0: false, 0xffffffff: false, 0x7fffffff: false, 1000: false} {
		p := binary.LittleEndian.AppendUint32([]byte{0, 0, 0, 0, 1}, n)
		p = append(p, make([]byte, max(int(int32(min(n, 100)))-4, 0))...)
		if m, got := mongowire.ParseMessage(mongowire.OpMsg, append(p, body...)); got != ok {
			t.Errorf("a section of length %d: %+v, %v; want %v", int32(n), m, got, ok)
		}
	}
}
