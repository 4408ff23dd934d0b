package rawhttp2

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Stream is what came on a stream. It is a copy where it is returned.
type Stream struct {
	Interim []string // heads of 1xx answers, in one line each
	Status  string   // "" = no answer has come
	Fields  []string // "name: value", in their order
	Body    []byte
	Trailer []string // as Fields
	Ended   bool     // the answer is whole
	Reset   *http2.ErrCode

	window, credit int64 // what the server may still send, and the client
}

// Field returns the values of a field of the answer, joined by a bar.
func (s *Stream) Field(name string) string {
	var values []string
	for _, f := range s.Fields {
		if value, ok := strings.CutPrefix(f, name+": "); ok {
			values = append(values, value)
		}
	}
	return strings.Join(values, "|")
}

// streamLocked returns what is known of a stream.
func (c *Conn) streamLocked(id uint32) *Stream {
	s := c.streams[id]
	if s == nil {
		s = &Stream{window: c.first, credit: c.initial}
		c.streams[id] = s
	}
	return s
}

// Await waits until something is so that ok tells of what has come. ok is called
// with the lock held.
func (c *Conn) Await(what string, ok func() bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		if c.err != nil {
			c.t.Fatalf("waiting for %s: the connection ended: %v (GOAWAY %v)", what, c.err, c.away)
		}
		c.changed.Wait()
	}
}

// Of returns what has come on a stream so far.
func (c *Conn) Of(id uint32) Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := *c.streamLocked(id)
	s.Fields, s.Trailer, s.Body = slices.Clone(s.Fields), slices.Clone(s.Trailer), slices.Clone(s.Body)
	return s
}

// Head waits for the head of an answer.
func (c *Conn) Head(id uint32) Stream {
	c.t.Helper()
	c.Await("a head", func() bool { s := c.streamLocked(id); return s.Status != "" || s.Reset != nil })
	return c.Of(id)
}

// Answer waits for the end of a stream.
func (c *Conn) Answer(id uint32) Stream {
	c.t.Helper()
	c.Await("an answer", func() bool { s := c.streamLocked(id); return s.Ended || s.Reset != nil })
	return c.Of(id)
}

// Body waits until n bytes of an answer's body have come.
func (c *Conn) Body(id uint32, n int) Stream {
	c.t.Helper()
	c.Await("a body", func() bool { s := c.streamLocked(id); return len(s.Body) >= n || s.Ended || s.Reset != nil })
	return c.Of(id)
}

// Away waits for GOAWAY, or the end of the connection, and returns the last, nil when
// none came.
func (c *Conn) Away() *http2.GoAwayFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.away == nil && c.err == nil {
		c.changed.Wait()
	}
	return c.away
}

// Fate waits for what became of a stream that ought to fail: the status of the
// answer, the code of the reset, or that of the GOAWAY.
func (c *Conn) Fate(id uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		s := c.streamLocked(id)
		switch {
		case c.away != nil && c.away.ErrCode != http2.ErrCodeNo:
			return "GOAWAY " + c.away.ErrCode.String()
		case s.Reset != nil && s.Status == "":
			return "RST_STREAM " + s.Reset.String()
		case s.Status != "":
			return s.Status
		case c.err != nil:
			return "the end"
		}
		c.changed.Wait()
	}
}

// read keeps what comes until the connection ends.
func (c *Conn) read() {
	for {
		f, err := c.reading.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.err = err
		} else {
			c.takeLocked(f)
		}
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			var illegal http2.ConnectionError
			if se := (http2.StreamError{}); errors.As(err, &se) || errors.As(err, &illegal) {
				c.t.Errorf("the server sends what HTTP/2 forbids: %v, %v", err, c.reading.ErrorDetail())
			}
			return
		}
	}
}

// takeLocked keeps a frame.
func (c *Conn) takeLocked(f http2.Frame) {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		c.headLocked(f)
	case *http2.DataFrame:
		s, n := c.streamLocked(f.StreamID), int64(f.Length)
		s.Body, s.Ended = append(s.Body, f.Data()...), f.StreamEnded()
		if s.window, c.window = s.window-n, c.window-n; s.window < 0 || c.window < 0 {
			c.t.Errorf("stream %d: the server is %d bytes beyond the stream's window and %d beyond the connection's", f.StreamID, -s.window, -c.window)
		}
		if n > 0 && !c.stingy {
			c.acks = append(c.acks, func() { c.Grant(0, f.Length) })
			if !s.Ended {
				c.acks = append(c.acks, func() { c.Grant(f.StreamID, f.Length) })
			}
		}
	case *http2.RSTStreamFrame:
		code := f.ErrCode
		c.streamLocked(f.StreamID).Reset = &code
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.credit += int64(f.Increment)
		} else {
			c.streamLocked(f.StreamID).credit += int64(f.Increment)
		}
	case *http2.SettingsFrame:
		c.settingsLocked(f)
	case *http2.PingFrame:
		if f.IsAck() {
			c.pongs++
		} else {
			data := f.Data
			c.acks = append(c.acks, func() { _ = c.Write(func(w *http2.Framer) error { return w.WritePing(true, data) }) })
		}
	case *http2.GoAwayFrame:
		c.away = &http2.GoAwayFrame{FrameHeader: f.FrameHeader, LastStreamID: f.LastStreamID, ErrCode: f.ErrCode}
	}
}

// headLocked keeps a head, or trailers.
func (c *Conn) headLocked(f *http2.MetaHeadersFrame) {
	s := c.streamLocked(f.StreamID)
	s.Ended = f.StreamEnded()
	status := f.PseudoValue("status")
	var fields []string
	for _, field := range f.RegularFields() {
		fields = append(fields, field.Name+": "+field.Value)
		c.checkLocked(field)
	}
	switch {
	case status == "":
		s.Trailer = fields
	case status[0] == '1':
		s.Interim = append(s.Interim, strings.Join(append([]string{status}, fields...), " "))
	default:
		s.Status, s.Fields = status, fields
	}
}

// checkLocked fails the test for a field that only HTTP/1.1 has.
func (c *Conn) checkLocked(f hpack.HeaderField) {
	switch f.Name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		c.t.Errorf("the answer has a field of the connection: %s: %s", f.Name, f.Value)
	}
}

// settingsLocked keeps to what the server wants.
func (c *Conn) settingsLocked(f *http2.SettingsFrame) {
	if f.IsAck() {
		return
	}
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, s := range c.streams {
			s.credit += int64(v) - c.initial
		}
		c.initial = int64(v)
	}
	c.acks = append(c.acks, func() { _ = c.Write((*http2.Framer).WriteSettingsAck) })
}

// acknowledge writes what is due, so that reading never waits for the server.
func (c *Conn) acknowledge() {
	for {
		c.mu.Lock()
		for len(c.acks) == 0 && c.err == nil {
			c.changed.Wait()
		}
		due := c.acks
		c.acks = nil
		over := c.err != nil
		c.mu.Unlock()
		if over {
			return
		}
		for _, ack := range due {
			ack()
		}
	}
}

// Code waits for the code by which the server ends a stream or the connection because of
// what it was sent, "" when it does so without one.
func (c *Conn) Code() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.away != nil && c.away.ErrCode != http2.ErrCodeNo {
			return c.away.ErrCode.String()
		}
		for _, s := range c.streams {
			if s.Reset != nil && *s.Reset != http2.ErrCodeNo {
				return s.Reset.String()
			}
		}
		if c.err != nil {
			return ""
		}
		c.changed.Wait()
	}
}
