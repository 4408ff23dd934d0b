package mongowire

import (
	"bytes"
	"encoding/binary"
	"math"
)

// The BSON types that are looked into.
const (
	typeDouble   = 0x01
	typeString   = 0x02
	TypeDocument = 0x03
	TypeArray    = 0x04
	TypeBinary   = 0x05
	typeBoolean  = 0x08
	typeInt32    = 0x10
	TypeInt64    = 0x12
)

// Scanner walks the elements of a document in place. It allocates nothing and
// reads no value that is not asked for. The document may be cut short.
type Scanner struct {
	b     []byte // what is left of the document, its final zero included
	Short bool   // the bytes ended before the document did
}

// Empty reports whether the document has no elements, or none is left.
func (s *Scanner) Empty() bool { return len(s.b) == 1 && s.b[0] == 0 && !s.Short }

// Element is one element. Its slices point into the scanned document.
type Element struct {
	Type  byte
	Key   []byte
	Value []byte
}

// Scan returns a scanner over the document at the start of b. Bytes behind it
// are left alone; a length that cannot be one makes an empty scanner.
func Scan(b []byte) Scanner {
	if len(b) < 5 {
		return Scanner{Short: true}
	}
	n := int(int32(binary.LittleEndian.Uint32(b)))
	switch {
	case n < 5:
		return Scanner{}
	case n > len(b):
		return Scanner{b: b[4:], Short: true}
	}
	return Scanner{b: b[4:n]}
}

// Next moves to the next element. It returns false at the end, at bytes that
// are no element, and where the document is cut short.
func (s *Scanner) Next(e *Element) bool {
	if len(s.b) == 0 || s.b[0] == 0 {
		s.Short = s.Short && len(s.b) == 0
		return false
	}
	key, rest, ok := cstring(s.b[1:])
	if !ok {
		return false
	}
	n := valueLen(s.b[0], rest)
	if n < 0 || n > len(rest) {
		s.Short = s.Short && n != malformed
		return false
	}
	e.Type, e.Key, e.Value = s.b[0], key, rest[:n]
	s.b = rest[n:]
	return true
}

// Results of valueLen that are no length.
const (
	incomplete = -1
	malformed  = -2
)

// valueLen returns how many bytes the value of the given type at the start of
// b takes, which may be more than there are.
func valueLen(typ byte, b []byte) int {
	switch typ {
	case 0x06, 0x0a, 0x7f, 0xff: // undefined, null, maxKey, minKey
		return 0
	case typeBoolean:
		return 1
	case typeInt32:
		return 4
	case typeDouble, 0x09, 0x11, TypeInt64: // date, timestamp
		return 8
	case 0x07: // ObjectID
		return 12
	case 0x13: // decimal128
		return 16
	case typeString, 0x0d, 0x0e: // code, symbol
		return prefixed(b, 4, 1)
	case TypeDocument, TypeArray, 0x0f: // code with scope
		return prefixed(b, 0, 5)
	case TypeBinary:
		return prefixed(b, 5, 0)
	case 0x0c: // DBPointer
		return prefixed(b, 16, 1)
	case 0x0b: // regular expression: two cstrings
		_, rest, ok := cstring(b)
		if !ok {
			return incomplete
		}
		_, rest, ok = cstring(rest)
		if !ok {
			return incomplete
		}
		return len(b) - len(rest)
	}
	return malformed
}

// prefixed returns the length of a value that begins with an int32 length, not
// below least, and has extra bytes that the length does not count.
func prefixed(b []byte, extra, least int) int {
	if len(b) < 4 {
		return incomplete
	}
	n := int(int32(binary.LittleEndian.Uint32(b)))
	if n < least || n > math.MaxInt32-16 {
		return malformed
	}
	return n + extra
}

// cstring splits b at its first zero byte.
func cstring(b []byte) (s, rest []byte, ok bool) {
	return bytes.Cut(b, []byte{0})
}

// Text returns the element's string, nil when it is none.
func (e *Element) Text() []byte {
	if e.Type != typeString || len(e.Value) < 5 {
		return nil
	}
	return e.Value[4 : len(e.Value)-1]
}

// Document returns a scanner over the element's document or array, an empty one
// when it is neither.
func (e *Element) Document() Scanner {
	if e.Type != TypeDocument && e.Type != TypeArray {
		return Scanner{}
	}
	return Scan(e.Value)
}

// Number returns the element as an integer; fractions are cut off.
func (e *Element) Number() (int64, bool) {
	switch e.Type {
	case typeInt32:
		return int64(int32(binary.LittleEndian.Uint32(e.Value))), true
	case TypeInt64:
		return int64(binary.LittleEndian.Uint64(e.Value)), true
	case typeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.Value))
		if math.IsNaN(f) || math.Abs(f) > math.MaxInt64/2 {
			return 0, false
		}
		return int64(f), true
	case typeBoolean:
		return int64(e.Value[0]), true
	}
	return 0, false
}

// Truthy reports whether the element is true or a number other than zero.
func (e *Element) Truthy() bool {
	n, ok := e.Number()
	return ok && n != 0
}

// Lookup returns the first element with the key in the document at the start
// of b.
func Lookup(b []byte, key string) (e Element, ok bool) {
	s := Scan(b)
	for s.Next(&e) {
		if string(e.Key) == key {
			return e, true
		}
	}
	return Element{}, false
}

// LookupIn returns the field of e's document.
func LookupIn(e Element, key string) (Element, bool) {
	if e.Type != TypeDocument {
		return Element{}, false
	}
	return Lookup(e.Value, key)
}
