package mongogate

import (
	"bytes"
	"encoding/binary"
	"math"
)

// The BSON types that the gate looks into.
const (
	typeDouble   = 0x01
	typeString   = 0x02
	typeDocument = 0x03
	typeArray    = 0x04
	typeBinary   = 0x05
	typeBoolean  = 0x08
	typeInt32    = 0x10
	typeInt64    = 0x12
)

// scanner walks the elements of a document in place. It allocates nothing and
// reads no value that is not asked for. The document may be cut short.
type scanner struct {
	b     []byte // what is left of the document, its final zero included
	short bool   // the bytes ended before the document did
}

// empty reports whether the document has no elements, or none is left.
func (s *scanner) empty() bool { return len(s.b) == 1 && s.b[0] == 0 && !s.short }

// element is one element. Its slices point into the scanned document.
type element struct {
	typ   byte
	key   []byte
	value []byte
}

// scan returns a scanner over the document at the start of b. Bytes behind it
// are left alone; a length that cannot be one makes an empty scanner.
func scan(b []byte) scanner {
	if len(b) < 5 {
		return scanner{short: true}
	}
	n := int(int32(binary.LittleEndian.Uint32(b)))
	switch {
	case n < 5:
		return scanner{}
	case n > len(b):
		return scanner{b: b[4:], short: true}
	}
	return scanner{b: b[4:n]}
}

// next moves to the next element. It returns false at the end, at bytes that
// are no element, and where the document is cut short.
func (s *scanner) next(e *element) bool {
	if len(s.b) == 0 || s.b[0] == 0 {
		s.short = s.short && len(s.b) == 0
		return false
	}
	key, rest, ok := cstring(s.b[1:])
	if !ok {
		return false
	}
	n := valueLen(s.b[0], rest)
	if n < 0 || n > len(rest) {
		s.short = s.short && n != malformed
		return false
	}
	e.typ, e.key, e.value = s.b[0], key, rest[:n]
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
	case typeDouble, 0x09, 0x11, typeInt64: // date, timestamp
		return 8
	case 0x07: // ObjectID
		return 12
	case 0x13: // decimal128
		return 16
	case typeString, 0x0d, 0x0e: // code, symbol
		return prefixed(b, 4, 1)
	case typeDocument, typeArray, 0x0f: // code with scope
		return prefixed(b, 0, 5)
	case typeBinary:
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

// str returns the element's string, nil when it is none.
func (e *element) str() []byte {
	if e.typ != typeString || len(e.value) < 5 {
		return nil
	}
	return e.value[4 : len(e.value)-1]
}

// doc returns a scanner over the element's document or array, an empty one
// when it is neither.
func (e *element) doc() scanner {
	if e.typ != typeDocument && e.typ != typeArray {
		return scanner{}
	}
	return scan(e.value)
}

// number returns the element as an integer; fractions are cut off.
func (e *element) number() (int64, bool) {
	switch e.typ {
	case typeInt32:
		return int64(int32(binary.LittleEndian.Uint32(e.value))), true
	case typeInt64:
		return int64(binary.LittleEndian.Uint64(e.value)), true
	case typeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.value))
		if math.IsNaN(f) || math.Abs(f) > math.MaxInt64/2 {
			return 0, false
		}
		return int64(f), true
	case typeBoolean:
		return int64(e.value[0]), true
	}
	return 0, false
}

// truthy reports whether the element is true or a number other than zero.
func (e *element) truthy() bool {
	n, ok := e.number()
	return ok && n != 0
}

// lookup returns the first element with the key in the document at the start
// of b.
func lookup(b []byte, key string) (e element, ok bool) {
	s := scan(b)
	for s.next(&e) {
		if string(e.key) == key {
			return e, true
		}
	}
	return element{}, false
}
