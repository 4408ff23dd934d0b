package fastpath

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
)

const (
	// sendAfter is how much of an answer is gathered before it is sent, in bytes.
	sendAfter = 4 << 10
	// maxKept bounds the buffer for answers that is kept from one to the next, in
	// bytes.
	maxKept = 64 << 10
)

// plain is a request that is served on the fast path, with its answer: it is the
// [http.ResponseWriter] too. It is used for one request after another; its zero
// value is not usable.
type plain struct {
	r      http.Request
	url    url.URL  // of r, where it is simple
	values []string // of r.Header
	came   time.Time
	gone   *clientContext
	d      *fastConn
	body   bufferedBody
	visit  Handler

	header  http.Header
	out     []byte // what is not sent yet
	status  int    // 0 = nothing was said
	left    int64  // of the body, as declared
	chunked bool   // it is of unknown length
	bare    bool   // the answer has no body
	last    bool   // the connection ends with the answer
	failed  error  // of a write
}

// closeValue is shared: nobody writes to the values of a header.
var closeValue = []string{"close"} //nolint:gochecknoglobals // constant

// newPlain returns one that v is asked about.
func newPlain(v Handler) *plain {
	return &plain{
		visit:  v,
		r:      http.Request{Header: http.Header{}, Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody},
		values: make([]string, 0, 32), header: http.Header{}, out: make([]byte, 0, 2*sendAfter),
	}
}

// memory is the body of a request that was read with its head.
type bufferedBody struct{ bytes.Reader }

// Close implements [io.Closer].
func (*bufferedBody) Close() error { return nil }

// begin makes p a request that came over d now, with body behind its head.
func (p *plain) begin(d *fastConn, now time.Time, body []byte) {
	p.came = now
	p.d, p.status, p.left, p.chunked, p.bare, p.last, p.failed = d, 0, 0, false, false, false, nil
	p.out = p.out[:0]
	clear(p.header)
	p.setBody(body)
	p.r.RemoteAddr, p.r.TLS = d.remote, d.tls
}

// refused ends the answer to a request that was refused, and reports whether the
// connection can go on.
func (p *plain) refused() (keep bool) {
	p.finish()
	p.setBody(nil)
	p.d = nil
	return !p.last && p.failed == nil
}

// settle takes a request that may go on, or has to wait, to the end of its
// answer, and reports whether the connection can go on.
func (p *plain) settle() (keep bool) {
	d := p.d
	if p.gone == nil {
		p.gone = newClientContext()
	}
	p.gone.begin(d)
	defer func() { // forwarding may panic
		if p.gone.end() || !keep {
			p.gone = nil
		}
		// What the watch, or a long answer, did to the deadlines is undone.
		keep = keep && p.gone != nil && (!d.touched.IsZero() || d.refresh(time.Now(), d.s.bounds.Load()) == nil)
		p.setBody(nil)
		p.d = nil
	}()
	if p.visit.Settle(p.gone, p, &p.r) {
		return false
	}
	p.finish()
	return !p.last && p.failed == nil
}

// setBody makes b the body of the request.
func (p *plain) setBody(b []byte) {
	p.body.Reset(b)
	p.r.Body = http.NoBody
	if len(b) > 0 {
		p.r.Body = &p.body
	}
}

// Header implements [http.ResponseWriter].
func (p *plain) Header() http.Header { return p.header }

// WriteHeader implements [http.ResponseWriter].
func (p *plain) WriteHeader(status int) {
	if p.status != 0 {
		return
	}
	p.out = appendStatus(p.out, status)
	if status < http.StatusOK {
		p.appendFields()
		p.out = append(p.out, "\r\n"...)
		p.send()
		return
	}
	p.status = status
	if p.bare = status == http.StatusNoContent || status == http.StatusNotModified; p.bare {
		delete(p.header, "Content-Length") // as net/http does
	}
	p.left = -1
	if told := p.header["Content-Length"]; len(told) > 0 {
		p.left, _ = strconv.ParseInt(told[0], 10, 64) // written by the gate itself
	}
	p.bare = p.bare || p.r.Method == http.MethodHead
	told := p.header["Connection"]
	p.last = len(told) > 0 && strings.EqualFold(told[0], "close")
	if !p.last && p.isLast() {
		p.header["Connection"], p.last = closeValue, true
	}
	p.appendFields()
	if _, ok := p.header["Date"]; !ok {
		p.out = appendField(p.out, "Date", h2.Date(time.Now()))
	}
	if p.chunked = p.left < 0 && !p.bare; p.chunked {
		p.out = append(p.out, "Transfer-Encoding: chunked\r\n"...)
	}
	p.out = append(p.out, "\r\n"...)
}

// isLast reports whether the connection is to end with this answer.
func (p *plain) isLast() bool { return p.d.phase.Load() == leaving || p.d.s.resting.Load() }

// appendStatus appends the first line of an answer.
func appendStatus(b []byte, status int) []byte {
	if status == http.StatusOK {
		return append(b, "HTTP/1.1 200 OK\r\n"...)
	}
	b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		return append(append(b, text...), "\r\n"...)
	}
	return append(strconv.AppendInt(append(b, "status code "...), int64(status), 10), "\r\n"...) // as net/http does
}

// appendField appends one line.
func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

// appendFields appends the header, less what is meant for behind the body.
func (p *plain) appendFields() {
	for name, values := range p.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			continue
		}
		for _, v := range values {
			p.out = appendField(p.out, name, v)
		}
	}
}

// Write implements [http.ResponseWriter]. As net/http does, it refuses more than
// was declared, and any of a body where there is none.
func (p *plain) Write(b []byte) (int, error) {
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	switch {
	case p.failed != nil:
		return 0, p.failed
	case len(b) == 0:
		return 0, nil
	case p.bare && p.r.Method == http.MethodHead:
		return len(b), nil
	case p.bare:
		return 0, http.ErrBodyNotAllowed
	case p.chunked:
		p.out = append(strconv.AppendInt(p.out, int64(len(b)), 16), "\r\n"...)
		p.out = append(append(p.out, b...), "\r\n"...)
	case int64(len(b)) > p.left:
		return 0, http.ErrContentLength
	default:
		p.left -= int64(len(b))
		p.out = append(p.out, b...)
	}
	if len(p.out) >= sendAfter {
		p.send()
	}
	return len(b), p.failed
}

// finish ends the answer.
func (p *plain) finish() {
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	switch {
	case p.chunked:
		p.out = append(p.out, "0\r\n"...)
		for name, values := range p.header {
			if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
				for _, v := range values {
					p.out = appendField(p.out, name, v)
				}
			}
		}
		p.out = append(p.out, "\r\n"...)
	case p.left > 0 && !p.bare:
		p.last = true // less than was declared: the end of the connection tells
	}
	p.send()
}

// send sends what was gathered.
func (p *plain) send() {
	if p.failed == nil && len(p.out) > 0 {
		// The connection is closed by whoever learns that this failed. A refusal is sent
		// while the socket is being waited for, where closing it waits for the end of
		// that wait; over TLS it is not, and a farewell to whoever takes nothing would
		// take seconds.
		if _, p.failed = p.d.Write(p.out); p.failed != nil && p.d.tls != nil {
			_ = p.d.sock.Close()
		}
	}
	p.out = p.out[:0]
	if cap(p.out) > maxKept {
		p.out = make([]byte, 0, 2*sendAfter)
	}
}

// FlushError is what [http.ResponseController] calls.
func (p *plain) FlushError() error {
	if p.status == 0 {
		p.WriteHeader(http.StatusOK)
	}
	p.send()
	return p.failed
}

// SetWriteDeadline is what [http.ResponseController] calls.
func (p *plain) SetWriteDeadline(t time.Time) error {
	p.d.touched = time.Time{} // the next request has another
	return p.d.SetWriteDeadline(t)
}

// SetReadDeadline is what [http.ResponseController] calls; the body is here.
func (*plain) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex is what [http.ResponseController] calls, as above.
func (*plain) EnableFullDuplex() error { return nil }
