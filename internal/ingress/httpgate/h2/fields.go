package h2

import (
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxNames bounds the names of fields that a session remembers.
	maxNames = 64
	// longName is the length from which on a name is not worth it, in bytes.
	longName = 64
)

// fields is a block of fields that is being read: a request, what comes behind a body, or
// what is read for nothing but what other blocks refer to in it.
type fields struct {
	decoder *hpack.Decoder
	names   map[string]string // as they came, with their canonical form

	id    uint32
	open  bool          // the rest is to come
	fault http2.ErrCode // what is wrong with the stream already
	grave http2.ErrCode // what it means for the session that the stream is over
	st    *stream       // whose request it is; nil = none
	more  http.Header   // what comes behind a body; nil = it is none of that
	last  bool          // nothing follows it on the stream
	coded int           // bytes that may still come, as they come
	left  int           // and as they are counted
	long  bool          // it is longer than it may be
	wrong bool          // it is malformed
	plain bool          // a field that is not special came
}

// begin begins another block, which may have so many bytes.
func (b *fields) begin(id uint32, last bool, most int) {
	*b = fields{decoder: b.decoder, names: b.names, id: id, last: last, open: true, coded: 2 * most, left: most}
}

// isOpen reports whether the rest of a block is to come.
func (b *fields) isOpen() bool { return b.open }

// write reads a part of a block, and says what is wrong with it for the session.
func (b *fields) write(fragment []byte, whole bool) error {
	if b.coded -= len(fragment); b.coded < 0 {
		return errTooMuch
	}
	b.decoder.SetEmitEnabled(b.st != nil || b.more != nil)
	if _, err := b.decoder.Write(fragment); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if b.open = !whole; whole && b.decoder.Close() != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	return nil
}

// take takes one field, which the decoder has read.
func (b *fields) take(f hpack.HeaderField) {
	b.left -= int(f.Size())
	b.long = b.long || b.left < 0
	if b.long || b.wrong {
		b.decoder.SetEmitEnabled(false)
		return
	}
	if !isValue(f.Value) {
		b.wrong = true
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		b.wrong = b.plain || b.st == nil || !b.st.special(f.Name, f.Value)
		return
	}
	b.plain = true
	name := b.canonical(f.Name)
	switch {
	case name == "":
		b.wrong = true
	case b.st != nil:
		b.wrong = !b.st.field(name, f.Value)
	default:
		b.more[name] = append(b.more[name], f.Value)
	}
}

// canonical returns the canonical form of a name, "" when it is none.
func (b *fields) canonical(wire string) string {
	if name, ok := b.names[wire]; ok {
		return name
	}
	if !isName(wire) {
		return ""
	}
	name := textproto.CanonicalMIMEHeaderKey(wire)
	if len(b.names) < maxNames && len(wire) < longName {
		if b.names == nil {
			b.names = map[string]string{}
		}
		b.names[wire] = name
	}
	return name
}

// isName reports whether s may be the name of a field in HTTP/2: a token without
// capital letters.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return s != ""
}

// isValue reports whether s may be the value of a field in HTTP/2, where no space
// surrounds it.
func isValue(s string) bool {
	return s == "" || s[0] != ' ' && s[0] != '\t' && s[len(s)-1] != ' ' && s[len(s)-1] != '\t' && httpguts.ValidHeaderFieldValue(s)
}
