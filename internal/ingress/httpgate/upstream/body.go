package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// maxTrailer bounds the trailer section, in bytes.
const maxTrailer = 16 << 10

// Body reads the body of an answer off its frame. It is not an io.ReadCloser:
// the connection belongs to the exchange. The zero Body has not begun.
type Body struct {
	br      *bufio.Reader
	left    int64 // bytes to the end of the body, or of the chunk
	chunked bool
	open    bool // a chunk has been read, less the CRLF behind it
	toEOF   bool // the end of the connection is the end of the body
	trailer []Field
}

// NewBody returns the body that follows h, which answers a request made with
// method.
func NewBody(br *bufio.Reader, h *Head, method string) Body {
	switch {
	case method == "HEAD" || h.Status == 204 || h.Status == 304:
		return Body{br: br}
	case h.chunked:
		return Body{br: br, chunked: true}
	case h.Length >= 0:
		return Body{br: br, left: h.Length}
	default:
		return Body{br: br, toEOF: true, left: math.MaxInt64}
	}
}

// IsOver reports whether there is nothing left to read, as far as that is known
// without reading.
func (b *Body) IsOver() bool { return b.left == 0 && !b.chunked }

// HasBegun reports whether b is the body of an answer.
func (b *Body) HasBegun() bool { return b.br != nil }

// Check returns what is wrong with the beginning of a chunked body, as far as it is
// buffered. It takes nothing.
func (b *Body) Check() error {
	if !b.chunked {
		return nil
	}
	there, _ := b.br.Peek(b.br.Buffered())
	line, _, whole := bytes.Cut(there, []byte("\n"))
	if !whole {
		return nil
	}
	text, ok := strings.CutSuffix(string(line), "\r")
	if !ok {
		return errBareLF
	}
	_, err := parseSize(text)
	return err
}

// errBareLF is a line that does not end as it should.
var errBareLF = fmt.Errorf("%w: line of a chunked body ends in a bare LF", ErrBadResponse)

// parseSize parses the line before a chunk.
func parseSize(line string) (int64, error) {
	size, _, _ := strings.Cut(line, ";")
	return parseHex(strings.TrimRight(size, " \t"))
}

// Buffered returns how many bytes can be read without waiting, of this body or
// its frame.
func (b *Body) Buffered() int { return b.br.Buffered() }

// IsHere reports whether all of the rest is known to be buffered.
func (b *Body) IsHere() bool { return !b.chunked && int64(b.br.Buffered()) >= b.left }

// Fits reports whether there is a rest that is known to fit into n bytes.
func (b *Body) Fits(n int) bool { return !b.chunked && b.left > 0 && b.left <= int64(n) }

// EndsConnection reports whether the connection ends with the body.
func (b *Body) EndsConnection() bool { return b.toEOF }

// IsOfUnknownLength reports whether only reading tells where the body ends.
func (b *Body) IsOfUnknownLength() bool { return b.chunked || b.toEOF }

// Trailer returns the fields behind the body, once it was read to its end.
func (b *Body) Trailer() []Field { return b.trailer }

// Read implements io.Reader. A body that is cut short ends in
// [io.ErrUnexpectedEOF], a broken frame in [ErrBadResponse].
func (b *Body) Read(p []byte) (int, error) {
	if b.chunked && b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.EOF) && !b.toEOF {
		err = io.ErrUnexpectedEOF
	}
	if b.chunked && b.left == 0 && err == nil && b.br.Buffered() >= 2 {
		err = b.closeChunk() // so that what is buffered is all there is to know
		if last, _ := b.br.Peek(min(len(noTrailer), b.br.Buffered())); err == nil && string(last) == noTrailer {
			_, err = b.br.Discard(len(noTrailer))
			b.chunked = false // known to be over before somebody asks for more
		}
	}
	return n, err
}

// noTrailer ends a chunked body that has no trailer.
const noTrailer = "0\r\n\r\n"

// closeChunk reads the CRLF behind a chunk.
func (b *Body) closeChunk() error {
	if line, err := b.line(); err != nil || line != "" {
		return orBad(err, "chunk does not end where it says")
	}
	b.open = false
	return nil
}

// nextChunk reads the line before a chunk. After the last chunk it reads the
// trailer, stops being chunked, and leaves nothing to read.
func (b *Body) nextChunk() error {
	if b.open {
		if err := b.closeChunk(); err != nil {
			return err
		}
	}
	line, err := b.line()
	if err != nil {
		return err
	}
	if b.left, err = parseSize(line); err != nil {
		return err
	}
	if b.left > 0 {
		b.open = true
		return nil
	}
	if err := b.readTrailer(); err != nil {
		return err
	}
	b.chunked = false
	return nil
}

// readTrailer reads the trailer section.
func (b *Body) readTrailer() error {
	section := []byte("HTTP/1.1 200\r\n")
	for len(section) <= maxTrailer {
		line, err := b.line()
		if err != nil {
			return err
		}
		section = append(append(section, line...), "\r\n"...)
		if line != "" {
			continue
		}
		var h Head
		if err := h.parse(string(section)); err != nil {
			return err
		}
		b.trailer = h.Fields // less Content-Length and Transfer-Encoding, which parse takes out
		return nil
	}
	return fmt.Errorf("%w: trailer above %d bytes", ErrBadResponse, maxTrailer)
}

// line reads a line that ends in CRLF and returns it without. On an error
// nothing is taken, so that a read that was interrupted can be done again.
func (b *Body) line() (string, error) {
	for {
		there, _ := b.br.Peek(b.br.Buffered())
		if i := bytes.IndexByte(there, '\n'); i >= 0 {
			line, crlf := strings.CutSuffix(string(there[:i+1]), "\r\n")
			if !crlf {
				return "", errBareLF
			}
			_, err := b.br.Discard(i + 1)
			return line, err
		}
		switch _, err := b.br.Peek(len(there) + 1); {
		case errors.Is(err, io.EOF):
			return "", io.ErrUnexpectedEOF
		case errors.Is(err, bufio.ErrBufferFull):
			return "", fmt.Errorf("%w: line of a chunked body too long", ErrBadResponse)
		case err != nil:
			return "", err
		}
	}
}

// parseHex parses the size of a chunk: up to 15 hexadecimal digits and nothing
// else.
func parseHex(s string) (n int64, err error) {
	if s == "" || len(s) > 15 {
		return 0, fmt.Errorf("%w: chunk size %.20q", ErrBadResponse, s)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, fmt.Errorf("%w: chunk size %.20q", ErrBadResponse, s)
		}
		n = n<<4 | int64(c)
	}
	return n, nil
}

// orBad returns err, or a bad response when there is none.
func orBad(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrBadResponse, what)
}
