// Package rawhttp2 is a client of HTTP/2 for tests, frame by frame: it sends what a
// test tells it to, legal or not, and keeps what came by stream. Of its own it only
// acknowledges, and gives windows back. Nothing that is shipped imports it.
package rawhttp2

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	usualWindow = 65_535
	usualFrame  = 16 << 10
)

// Field is a header field, whatever it holds.
type Field = hpack.HeaderField

// Options say how a connection begins. The zero value is a usual client.
type Options struct {
	Settings []http2.Setting // of the client's first frame
	// Stingy does not give windows back by itself.
	Stingy bool
	// Deaf reads nothing until Listen is called.
	Deaf bool
}

// Conn is one connection to a server. Its methods are safe for concurrent use; they
// fail the test when what they wait for cannot come any more. It must have a deadline, or
// be in a bubble.
type Conn struct {
	net.Conn
	t      testing.TB
	scheme string
	stingy bool
	heard  sync.WaitGroup // the goroutines

	wmu    sync.Mutex // guards the fields below; held while a frame is written
	out    bytes.Buffer
	burst  bool // what is written may wait for more
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	reading *http2.Framer
	streams map[uint32]*Stream
	window  int64              // what the server may still send on the connection
	credit  int64              // what the client may
	initial int64              // what it may on a new stream
	first   int64              // what the server may on one
	acks    []func()           // due to be written
	pongs   int                // acknowledged pings
	away    *http2.GoAwayFrame // the last
	err     error              // why reading ended
}

// Dial begins HTTP/2 on c, over which TLS has been agreed on where it is wanted, and
// closes it at the end of the test.
func Dial(tb testing.TB, c net.Conn, o Options) *Conn {
	tb.Helper()
	h := &Conn{
		Conn: c, t: tb, scheme: "http", stingy: o.Stingy, streams: map[uint32]*Stream{},
		window: usualWindow, credit: usualWindow, initial: usualWindow, first: usualWindow,
	}
	if _, ok := c.(*tls.Conn); ok {
		h.scheme = "https"
	}
	h.changed = sync.NewCond(&h.mu)
	h.framer, h.reading = http2.NewFramer(&h.out, nil), http2.NewFramer(nil, bufio.NewReader(c))
	h.framer.AllowIllegalWrites = true
	h.enc = hpack.NewEncoder(&h.block)
	table := uint32(4 << 10)
	for _, s := range o.Settings {
		if s.ID == http2.SettingHeaderTableSize {
			table = s.Val
		}
		if s.ID == http2.SettingInitialWindowSize {
			h.first = int64(s.Val)
		}
	}
	h.reading.ReadMetaHeaders = hpack.NewDecoder(table, nil)
	h.reading.SetMaxReadFrameSize(usualFrame)
	tb.Cleanup(func() {
		_ = c.Close()
		h.heard.Wait()
	})
	if tcp, ok := c.(*net.TCPConn); ok && o.Deaf {
		_ = tcp.SetReadBuffer(usualFrame) // little is taken that is not read
	}
	if !o.Deaf {
		h.heard.Go(h.read)
	}
	h.Raw([]byte(http2.ClientPreface)) // before any acknowledgement
	_ = h.Write(func(f *http2.Framer) error { return f.WriteSettings(o.Settings...) })
	if !o.Deaf {
		h.heard.Go(h.acknowledge)
	}
	return h
}

// Listen begins to read, for one that was deaf.
func (c *Conn) Listen() {
	c.heard.Go(c.read)
	c.heard.Go(c.acknowledge)
}

// Write sends what f writes; that the server has closed is left to who waits for it.
func (c *Conn) Write(f func(*http2.Framer) error) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return errors.Join(f(c.framer), c.flushLocked())
}

// Burst sends what f does in few writes, and returns when that fails.
func (c *Conn) Burst(f func()) error {
	c.wmu.Lock()
	c.burst = true
	c.wmu.Unlock()
	f()
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.burst = false
	return c.flushLocked()
}

// flushLocked sends what was written.
func (c *Conn) flushLocked() error {
	if c.burst && c.out.Len() < usualFrame {
		return nil
	}
	_, err := c.out.WriteTo(c.Conn)
	return err
}

// Raw sends bytes.
func (c *Conn) Raw(p []byte) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, _ = c.Conn.Write(p)
}

// Fields returns a list from pairs of a name and a value: "name: value". A name
// that begins with a colon keeps it.
func Fields(pairs ...string) []Field {
	fields := make([]Field, len(pairs))
	for i, pair := range pairs {
		at := strings.Index(pair[min(1, len(pair)):], ": ") + 1
		fields[i] = Field{Name: pair[:at], Value: pair[at+2:]}
	}
	return fields
}

// Request returns the fields of a request: the four that each has, replaced by those of
// the same name in more, and the rest of more. One with the value "-" is left out.
func (c *Conn) Request(method, path string, more ...string) []Field {
	head := Fields(":method: "+method, ":scheme: "+c.scheme, ":authority: a", ":path: "+path)
	var rest []Field
next:
	for _, f := range Fields(more...) {
		for i := range head {
			if head[i].Name == f.Name {
				head[i] = f
				continue next
			}
		}
		rest = append(rest, f)
	}
	kept := make([]Field, 0, len(head)+len(rest))
	for _, f := range append(head, rest...) {
		if f.Value != "-" {
			kept = append(kept, f)
		}
	}
	return kept
}

// Headers sends a block of fields, in as many frames as it needs.
func (c *Conn) Headers(id uint32, end bool, fields []Field) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.block.Reset()
	for _, f := range fields {
		_ = c.enc.WriteField(f)
	}
	return errors.Join(c.fragmentsLocked(id, end, c.block.Bytes()), c.flushLocked())
}

// fragmentsLocked sends a block.
func (c *Conn) fragmentsLocked(id uint32, end bool, block []byte) error {
	n := min(len(block), usualFrame)
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: end, BlockFragment: block[:n], EndHeaders: n == len(block)})
	for block = block[n:]; err == nil && len(block) > 0; block = block[n:] {
		n = min(len(block), usualFrame)
		err = c.framer.WriteContinuation(id, n == len(block), block[:n])
	}
	return err
}

// Ask sends a request without a body.
func (c *Conn) Ask(id uint32, method, path string, more ...string) {
	_ = c.Headers(id, true, c.Request(method, path, more...))
}

// Begin sends the head of a request whose body follows.
func (c *Conn) Begin(id uint32, method, path string, more ...string) {
	_ = c.Headers(id, false, c.Request(method, path, more...))
}

// Data sends one frame of a body, whatever the window is.
func (c *Conn) Data(id uint32, end bool, p []byte) error {
	c.spend(id, int64(len(p)))
	return c.Write(func(f *http2.Framer) error { return f.WriteData(id, end, p) })
}

// Padded sends one frame of a body with as much behind it that is none.
func (c *Conn) Padded(id uint32, end bool, p, padding []byte) error {
	c.spend(id, int64(len(p)+1+len(padding)))
	return c.Write(func(f *http2.Framer) error { return f.WriteDataPadded(id, end, p, padding) })
}

// Send sends a body as the windows allow. It reports false when the server has
// ended the stream first.
func (c *Conn) Send(id uint32, end bool, p []byte) bool {
	for len(p) > 0 {
		var n int64
		over := false
		c.Await("a window for the body", func() bool {
			s := c.streamLocked(id)
			n, over = min(c.credit, s.credit, usualFrame, int64(len(p))), s.Ended || s.Reset != nil
			return n > 0 || over
		})
		if over {
			return false
		}
		if err := c.Data(id, false, p[:n]); err != nil {
			c.t.Logf("sending a body: %v", err)
			return false
		}
		p = p[n:]
	}
	return !end || c.Data(id, true, nil) == nil
}

// Fill sends as much of a body as the windows allow now, and returns how much.
func (c *Conn) Fill(id uint32) (sent int64) {
	for {
		c.mu.Lock()
		n := min(c.credit, c.streamLocked(id).credit, usualFrame)
		c.mu.Unlock()
		if n <= 0 || c.Data(id, false, make([]byte, n)) != nil {
			return sent
		}
		sent += n
	}
}

// spend takes n bytes from the windows.
func (c *Conn) spend(id uint32, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credit -= n
	c.streamLocked(id).credit -= n
}

// Reset ends a stream.
func (c *Conn) Reset(id uint32) {
	_ = c.Write(func(f *http2.Framer) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) })
}

// Grant gives the server a window of n more bytes, of the connection for id 0.
func (c *Conn) Grant(id, n uint32) {
	c.mu.Lock()
	if id == 0 {
		c.window += int64(n)
	} else {
		c.streamLocked(id).window += int64(n)
	}
	c.mu.Unlock()
	_ = c.Write(func(f *http2.Framer) error { return f.WriteWindowUpdate(id, n) })
}

// Sync waits until the server has read all that was sent before: it answers a ping.
func (c *Conn) Sync() {
	c.t.Helper()
	c.mu.Lock()
	want := c.pongs + 1
	c.mu.Unlock()
	_ = c.Write(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
	c.Await("the answer to a ping", func() bool { return c.pongs >= want })
}

// End waits for the end of the connection, and returns what it ended with: nil
// for its proper end.
func (c *Conn) End() error {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil {
		c.changed.Wait()
	}
	if errors.Is(c.err, io.EOF) {
		return nil
	}
	return c.err
}

// Enlarge gives the server n more bytes on each stream, by SETTINGS.
func (c *Conn) Enlarge(n uint32) {
	c.mu.Lock()
	c.first += int64(n)
	for _, s := range c.streams {
		s.window += int64(n)
	}
	size := uint32(c.first)
	c.mu.Unlock()
	_ = c.Write(func(f *http2.Framer) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: size})
	})
}

// Window is what the server may still send on the connection, and Credit what the client
// may. They are for functions that Await calls.
func (c *Conn) Window() int64 { return c.window }

// Credit is explained at [Conn.Window].
func (c *Conn) Credit() int64 { return c.credit }

// CreditOf is Credit for a stream.
func (c *Conn) CreditOf(id uint32) int64 { return c.streamLocked(id).credit }
