package mongogate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/golang/snappy"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/ingress/mongogate"
)

// Whatever the bytes, identify returns a verdict or ErrFrame, never looks
// beyond what is there, and says the same of the same frame.
func FuzzIdentify(f *testing.F) {
	f.Add(msg(1, 0, find()), 20)
	f.Add(query(1, "admin.$cmd", bson.D{{Key: "isMaster", Value: 1}}), 60)
	for a := range byte(4) {
		f.Add(compressed(1, a, msgPayload(0, find())), 100)
	}
	f.Add(msg(1, 2, bson.D{{Key: "insert", Value: "x"}}, sequence(bson.D{{Key: "a", Value: 1}})), 80)
	f.Fuzz(func(t *testing.T, b []byte, have int) {
		if len(b) < 16 {
			return
		}
		have = max(16, min(have, len(b)))
		prefix := bytes.Clone(b[:have])
		got, err := mongogate.Identify(prefix, have)
		if err != nil {
			if !errors.Is(err, mongogate.ErrFrame) {
				t.Fatalf("error %v is none of ours", err)
			}
			return
		}
		if again, _ := mongogate.Identify(b, have); again != got {
			t.Fatalf("%+v and %+v of the same bytes", got, again)
		}
		if n := int(int32(binary.LittleEndian.Uint32(b))); n <= have && got.Verdict == "needMore" {
			t.Fatalf("needMore of a whole frame of %d bytes", n)
		}
	})
}

// The scanner ends on any bytes, and on a document that the driver's library
// accepts it sees every element.
func FuzzScan(f *testing.F) {
	f.Add(doc(find()))
	f.Add(doc(bson.D{{Key: "a", Value: bson.A{1, "x", bson.D{}}}, {Key: "r", Value: bson.Regex{Pattern: "a", Options: "i"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, size := mongogate.Walk(b)
		if size > len(b) || n > len(b) {
			t.Fatalf("%d elements, %d bytes of values in %d bytes", n, size, len(b))
		}
		if len(b) < 5 || int(binary.LittleEndian.Uint32(b)) != len(b) || bson.Raw(b).Validate() != nil {
			return
		}
		if want, ok := countElements(bson.Raw(b)); ok && n != want {
			t.Fatalf("%d elements, the library sees %d", n, want)
		}
	})
}

// countElements counts elements down to the leaves. ok is false when the
// library, whose validation does not look into arrays, cannot read one.
func countElements(raw bson.Raw) (n int, ok bool) {
	elements, err := raw.Elements()
	if err != nil {
		return 0, false
	}
	n = len(elements)
	for _, e := range elements {
		var inner bson.Raw
		switch v := e.Value(); v.Type {
		case bson.TypeEmbeddedDocument:
			inner = v.Document()
		case bson.TypeArray:
			inner = bson.Raw(v.Array())
		case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol, bson.TypeDBPointer:
			if binary.LittleEndian.Uint32(v.Value) == 0 { // not even room for the final zero
				return 0, false
			}
			continue
		default:
			continue
		}
		c, ok := countElements(inner)
		if !ok {
			return 0, false
		}
		n += c
	}
	return n, true
}

// The prefix decoder agrees with the library.
func FuzzSnappyPrefix(f *testing.F) {
	f.Add(snappy.Encode(nil, bytes.Repeat([]byte("abcd"), 50)), 30)
	f.Fuzz(func(t *testing.T, packed []byte, n int) {
		dst := make([]byte, max(0, min(n, 1<<16)))
		got, err := mongogate.SnappyPrefix(dst, packed)
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
