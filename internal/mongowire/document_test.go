package mongowire_test

import (
	"encoding/binary"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/mongowire"
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

// Which elements are integers. A double that none can hold is not one.
func TestNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  int64
		ok    bool
	}{
		"int32": {int32(-3), -3, true}, "int64": {int64(math.MinInt64), math.MinInt64, true}, "double": {1.9, 1, true}, "true": {true, 1, true},
		"large double": {4e18, 4e18, true}, "double above": {1e19, 0, false}, "double below": {-1e19, 0, false},
		"infinite": {math.Inf(1), 0, false}, "not a number": {math.NaN(), 0, false}, "text": {"1", 0, false}, "null": {nil, 0, false},
	} {
		e, found := mongowire.Lookup(doc(bson.D{{Key: "n", Value: tc.value}}), "n")
		if got, ok := e.Number(); !found || got != tc.want || ok != tc.ok || e.Truthy() != (ok && got != 0) {
			t.Errorf("%s: %d, %v (found %v); want %d, %v", name, got, ok, found, tc.want, tc.ok)
		}
	}
}

// A key that is not there is not found, wherever the document ends.
func TestLookupOfWhatIsNotThere(t *testing.T) {
	b := doc(find())
	for n := range len(b) + 1 {
		if e, ok := mongowire.Lookup(b[:n], "nothing"); ok || e.Key != nil {
			t.Fatalf("%d bytes of the document hold %+v", n, e)
		}
	}
	inner, _ := mongowire.Lookup(b, "lsid")
	if _, ok := mongowire.LookupIn(inner, "nothing"); ok {
		t.Error("a document inside holds what is not there")
	}
}

// A scanner that has come to the end says whether the document has: of every prefix it
// says that it is short, of the whole that it is not, and none is left.
func TestScanToTheEnd(t *testing.T) {
	b := append(doc(find()), "behind"...)
	for n := range len(b) + 1 {
		var e mongowire.Element
		s := mongowire.Scan(b[:n])
		for found := true; found; {
			found = s.Next(&e)
		}
		if again := s.Next(&e); again || s.Short != (n < len(b)-len("behind")) {
			t.Fatalf("at the end of %d bytes of %d: more %v, short %v", n, len(b)-len("behind"), again, s.Short)
		}
	}
	// A length that promises more than there is, behind an end that is there, is not short.
	b = doc(bson.D{})
	b[0] = 9
	var e mongowire.Element
	if s := mongowire.Scan(b); s.Next(&e) || s.Short {
		t.Errorf("an empty document of a length that is a lie: short %v", s.Short)
	}
	// Nor is one that is all there and lacks its final zero.
	b = doc(bson.D{{Key: "a", Value: int32(1)}})
	b = b[:len(b)-1]
	b[0]--
	s := mongowire.Scan(b)
	if first, second := s.Next(&e), s.Next(&e); !first || second || s.Short {
		t.Errorf("a document without its end: elements %v, %v, short %v", first, second, s.Short)
	}
}
