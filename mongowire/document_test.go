package mongowire_test

import (
	"encoding/binary"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/mongowire"
)

// doc marshals a document.
func doc(d bson.D) []byte {
	b, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

// find is a command with elements of several types.
func find() bson.D {
	return bson.D{
		{Key: "find", Value: "orders"},
		{Key: "filter", Value: bson.D{{Key: "total", Value: bson.D{{Key: "$gt", Value: 1.5}}}}},
		{Key: "maxTimeMS", Value: int64(250)},
		{Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}},
		{Key: "autocommit", Value: false},
	}
}

// walk scans a document to its leaves and returns how many elements there are
// and how many bytes of values they have.
func walk(b []byte) (elements, size int) {
	var e mongowire.Element
	for s := mongowire.Scan(b); s.Next(&e); {
		elements++
		size += len(e.Value)
		_, _ = e.Number()
		_ = e.Text()
		if e.Type == mongowire.TypeDocument || e.Type == mongowire.TypeArray {
			n, _ := walk(e.Value)
			elements += n
		}
	}
	return elements, size
}

// The scanner ends on any bytes, and on a document that the driver's library
// accepts it sees every element.
func FuzzScan(f *testing.F) {
	f.Add(doc(find()))
	f.Add(doc(bson.D{{Key: "a", Value: bson.A{1, "x", bson.D{}}}, {Key: "r", Value: bson.Regex{Pattern: "a", Options: "i"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, size := walk(b)
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
