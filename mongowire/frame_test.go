package mongowire_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/mongowire"
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
