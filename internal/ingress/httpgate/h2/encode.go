package h2

import (
	"strings"

	"golang.org/x/net/http2"
)

// resize is the update of the client's table of fields to nothing (RFC 7541, section
// 6.3): the gate refers to no field that it has sent before, so that what it says of
// many requests in the same words is encoded once.
const resize = 0x20

// appendFrame appends the head of a frame.
func appendFrame(b []byte, length int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags),
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// places are those of names in the static table (RFC 7541, appendix A).
var places = map[string]int{ //nolint:gochecknoglobals // constant
	":status": 8, "Accept-Ranges": 18, "Access-Control-Allow-Origin": 20, "Age": 21, "Allow": 22, "Cache-Control": 24,
	"Content-Disposition": 25, "Content-Encoding": 26, "Content-Language": 27, "Content-Length": 28, "Content-Location": 29,
	"Content-Range": 30, "Content-Type": 31, "Date": 33, "Etag": 34, "Expires": 36, "Last-Modified": 44, "Link": 45,
	"Location": 46, "Retry-After": 53, "Server": 54, "Set-Cookie": 55, "Strict-Transport-Security": 56, "Vary": 59, "Via": 60,
	"Www-Authenticate": 61,
}

// appendField appends a field, by its canonical name, that nobody is to remember.
func appendField(b []byte, name, value string) []byte {
	if place, ok := places[name]; ok {
		b = appendInt(b, 4, place)
	} else {
		b = appendInt(append(b, 0), 7, len(name))
		b = append(b, strings.ToLower(name)...)
	}
	return append(appendInt(b, 7, len(value)), value...)
}

// appendInt appends n in so many bits of a byte, and as many more bytes as it takes
// (RFC 7541, section 5.1).
func appendInt(b []byte, bits, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(b, byte(n))
	}
	b = append(b, byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}
