package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ErrBadResponse is wrapped by every error about an answer of the backend that
// is not HTTP/1.x as RFC 9112 has it.
var ErrBadResponse = errors.New("upstream: bad answer from the backend")

// ErrHTTP2 is returned for an answer in HTTP/2, to a request in HTTP/1.1.
var ErrHTTP2 = fmt.Errorf("%w: it speaks HTTP/2 only", ErrBadResponse)

// frameHead is how long the head of a frame of HTTP/2 is, in bytes.
const frameHead = 9

// isHTTP2 reports whether b is the beginning of SETTINGS or GOAWAY, with one of which
// servers of HTTP/2 begin (RFC 9113, section 3.4).
func isHTTP2(b []byte) bool {
	return len(b) == frameHead && (b[3] == 4 || b[3] == 7) && b[4] == 0 && bytes.Equal(b[5:], make([]byte, 4))
}

// Field is one header field. The name is canonical.
type Field struct{ Name, Value string }

// Head is the head of an answer. The fields are valid until the next
// [Head.Read] into the same head; the strings for ever.
type Head struct {
	Status int
	// Fields are those of the answer but for Content-Length and
	// Transfer-Encoding, which say where the body ends.
	Fields []Field
	Listed string // values of Connection, joined by ","

	Length     int64  // Content-Length, -1 without one
	LengthText string // as it was written

	minor   int // of HTTP/1.minor
	chunked bool
	close   bool // the backend closes after this answer
}

// Reset empties h and keeps its memory.
func (h *Head) Reset() {
	clear(h.Fields[:cap(h.Fields)])
	*h = Head{Fields: h.Fields[:0]}
}

// Read reads the head of an answer of at most limit bytes. It returns
// io.EOF only when the connection ended before the first byte.
func (h *Head) Read(br *bufio.Reader, limit int) error {
	raw, err := rawHead(br, limit)
	if err != nil {
		return err
	}
	return h.parse(raw)
}

// rawHead returns the bytes up to and including the empty line. What fits in
// the buffer of br, which is nearly every head, is copied once.
func rawHead(br *bufio.Reader, limit int) (string, error) {
	searched := 0
	switch first, err := br.Peek(1); {
	case err != nil:
		return rawHeadSlow(br, limit, err)
	case first[0] != 'H':
		if frame, _ := br.Peek(min(br.Buffered(), frameHead)); isHTTP2(frame) {
			return "", ErrHTTP2
		}
		return "", fmt.Errorf("%w: it begins with %.9q", ErrBadResponse, first)
	}
	for {
		if br.Buffered() <= searched {
			if _, err := br.Peek(searched + 1); err != nil {
				return rawHeadSlow(br, limit, err)
			}
		}
		b, err := br.Peek(min(br.Buffered(), limit))
		if err != nil {
			return "", err
		}
		if i := bytes.Index(b[max(searched-3, 0):], []byte("\r\n\r\n")); i >= 0 {
			end := max(searched-3, 0) + i + 4
			raw := string(b[:end])
			_, err = br.Discard(end)
			return raw, err
		}
		if len(b) >= limit {
			return "", fmt.Errorf("%w: head above %d bytes", ErrBadResponse, limit)
		}
		searched = len(b)
	}
}

// rawHeadSlow goes on after the buffer could not be filled because of cause.
func rawHeadSlow(br *bufio.Reader, limit int, cause error) (string, error) {
	if !errors.Is(cause, bufio.ErrBufferFull) {
		if errors.Is(cause, io.EOF) && br.Buffered() > 0 {
			return "", io.ErrUnexpectedEOF
		}
		return "", cause
	}
	var raw []byte
	for {
		line, err := br.ReadSlice('\n')
		raw = append(raw, line...)
		switch {
		case len(raw) > limit:
			return "", fmt.Errorf("%w: head above %d bytes", ErrBadResponse, limit)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		case bytes.HasSuffix(raw, []byte("\r\n\r\n")):
			return string(raw), nil
		}
	}
}

// parse takes a whole head apart. It is strict: a line folded over two, a bare
// CR or LF, a space before the colon, or two ways to tell where the body ends
// are errors, because two parsers may read them differently.
func (h *Head) parse(raw string) error {
	*h = Head{Fields: h.Fields[:0], Length: -1}
	line, rest, _ := strings.Cut(raw, "\r\n")
	if err := h.parseStatus(line); err != nil {
		return err
	}
	for rest != "\r\n" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%w: header line %.40q", ErrBadResponse, line)
		}
		value = strings.Trim(value, " \t")
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("%w: value of header %.40q", ErrBadResponse, name)
		}
		if err := h.add(Field{textproto.CanonicalMIMEHeaderKey(name), value}); err != nil {
			return err
		}
	}
	if h.chunked && h.Length >= 0 {
		return fmt.Errorf("%w: both Transfer-Encoding and Content-Length", ErrBadResponse)
	}
	if h.chunked && h.minor == 0 {
		return fmt.Errorf("%w: Transfer-Encoding in HTTP/1.0", ErrBadResponse)
	}
	return nil
}

// parseStatus parses "HTTP/1.x NNN reason".
func (h *Head) parseStatus(line string) error {
	if len(line) < 12 || line[:7] != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' ||
		!httpguts.ValidHeaderFieldValue(line) { // a bare LF here would hide a header line
		return fmt.Errorf("%w: status line %.40q", ErrBadResponse, line)
	}
	minor := line[7]
	status, err := strconv.ParseUint(line[9:12], 10, 16)
	if minor != '0' && minor != '1' || err != nil || status < 100 {
		return fmt.Errorf("%w: status line %.40q", ErrBadResponse, line)
	}
	h.minor, h.Status = int(minor-'0'), int(status)
	h.close = h.minor == 0
	return nil
}

// add takes a field and what it says about the frame.
func (h *Head) add(f Field) error {
	switch f.Name {
	case "Content-Length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || h.Length >= 0 && h.Length != int64(n) {
			return fmt.Errorf("%w: Content-Length %.40q", ErrBadResponse, f.Value)
		}
		h.Length, h.LengthText = int64(n), f.Value
		return nil // written anew
	case "Transfer-Encoding":
		if h.chunked || !strings.EqualFold(f.Value, "chunked") {
			return fmt.Errorf("%w: Transfer-Encoding %.40q", ErrBadResponse, f.Value)
		}
		h.chunked = true
		return nil
	case "Connection":
		if HasToken(f.Value, "close") {
			h.close = true
		}
		if h.minor == 0 && HasToken(f.Value, "keep-alive") {
			h.close = false
		}
		if h.Listed != "" {
			h.Listed += ","
		}
		h.Listed += f.Value
	}
	h.Fields = append(h.Fields, f)
	return nil
}

// IsStream reports whether a stream of events follows, which has no end.
func (h *Head) IsStream() bool {
	return strings.HasPrefix(h.value("Content-Type"), "text/event-stream")
}

// Closes reports whether the backend closes the connection after this answer.
func (h *Head) Closes() bool { return h.close }

// value returns the first value of the field with a canonical name.
func (h *Head) value(name string) string {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value
		}
	}
	return ""
}

// IsHop reports whether a field with a canonical name concerns one connection
// and is not passed on. listed are the values of Connection.
func IsHop(name, listed string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return listed != "" && HasToken(listed, name)
}

// IsOurs reports whether the field of a request with a canonical name is written by
// a gate itself, or left out: the gate answers Expect.
func IsOurs(name string) bool {
	switch name {
	case "Host", "Content-Length", "Trailer", "Expect", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Via":
		return true
	}
	return false
}

// AppendField appends the line of a field.
func AppendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

// HasToken reports whether a comma separated list has the token, in any case.
func HasToken(list, token string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if strings.EqualFold(strings.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}
