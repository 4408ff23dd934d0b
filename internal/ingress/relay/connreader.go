package relay

import (
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/admitd/admitd/internal/ingress/nowait"
)

// bufSize is the size of a read buffer in bytes. A connection holds one only
// while bytes are on their way.
const bufSize = 32 << 10

// firstSize is how much of a message is read while no buffer is held, in bytes,
// where that has to be read to know that it is there.
const firstSize = 512

// bufPool holds buffers of bufSize.
var bufPool = sync.Pool{New: func() any { return new([bufSize]byte) }} //nolint:gochecknoglobals // a pool is a cache, not state

// connReader reads one direction of a connection. Bytes are buf[r:w]; those before
// p are decided about. It belongs to one goroutine.
type connReader struct {
	raw     syscall.RawConn // nil when bytes can only be read through conn
	attempt func(fd uintptr) bool
	buf     []byte
	r, p, w int
	total   int64          // bytes read so far
	pooled  *[bufSize]byte // behind buf, unless buf is a window
	hold    bool           // the rest of a message is to come: not idle
	short   bool           // the last read emptied the socket
	window  *[]byte        // behind buf, when it is a window
	err     error          // of the last attempt
	conn    net.Conn
	first   *[firstSize]byte // what an idle connection without raw reads into
	windows *sync.Pool       // of *[]byte, larger than bufSize
}

// begin reads from c. raw is [rawOf] it.
func (in *connReader) begin(c net.Conn, raw syscall.RawConn, windows *sync.Pool) {
	*in = connReader{conn: c, raw: raw, windows: windows}
	if raw == nil {
		in.first = new([firstSize]byte)
		return
	}
	in.attempt = in.tryRead
}

// rawOf returns how to read and write c past the scheduler; nil = it cannot be.
func rawOf(c net.Conn) syscall.RawConn {
	if sc, ok := c.(syscall.Conn); ok && nowait.Can {
		if raw, err := sc.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// next returns the bytes that are not decided about.
func (in *connReader) next() []byte { return in.buf[in.p:in.w] }

// full reports whether no more fits behind the message at p.
func (in *connReader) full() bool { return in.p == 0 && in.w == len(in.buf) && in.w > 0 }

// fill reads once. Everything before p must have been dropped. Without bytes
// in hand it waits without holding a buffer.
func (in *connReader) fill() error {
	switch {
	case in.r < in.w || (in.hold && in.raw == nil):
	case in.raw != nil:
		if in.window != nil {
			in.release()
		}
		return in.fillRaw()
	default:
		in.release()
		return in.fillFirst()
	}
	in.take()
	in.compact()
	n, err := in.conn.Read(in.buf[in.w:])
	in.w += n
	in.total += int64(n)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// each reads until an error, and calls handle after every read. Where the
// connection allows, it stays inside one wait of the runtime's poller: a read
// that did not fill the buffer emptied the socket, and what comes later wakes
// it, so the read that would only find nothing is saved unless handle expects
// more. The price is that an end of stream that comes in the same instant as
// the last expected bytes is noticed late, when the connection is used again or
// its keep-alive probe fails.
func (in *connReader) each(handle func() (more bool, err error)) error {
	if in.raw == nil {
		return in.eachRead(handle)
	}
	var end error
	err := in.raw.Read(func(fd uintptr) bool {
		for end == nil {
			var wait bool
			if wait, end = in.more(fd); end == nil && !wait {
				var more bool
				more, end = handle()
				wait = in.short && !more
			}
			if end == nil && wait {
				in.park()
				return false
			}
		}
		return true
	})
	if end != nil {
		return end
	}
	return err
}

// eachRead is each for connections that are not read raw.
func (in *connReader) eachRead(handle func() (more bool, err error)) error {
	for {
		if err := in.fill(); err != nil {
			return err
		}
		var err error
		if in.hold, err = handle(); err != nil {
			return err
		}
	}
}

// more reads once from fd behind what is there. wait means that there was
// nothing.
func (in *connReader) more(fd uintptr) (wait bool, err error) {
	in.take()
	in.compact()
	if in.w == len(in.buf) {
		return false, io.ErrShortBuffer // nobody reads on where nothing fits
	}
	n, err := nowait.Receive(fd, in.buf[in.w:])
	in.w += n
	in.total += int64(n)
	in.short = in.w < len(in.buf)
	return n == 0 && err == nil, err
}

// park gives the buffer back when nothing is in it.
func (in *connReader) park() {
	if in.r == in.w {
		in.release()
	}
}

// compact makes room behind a message that is cut.
func (in *connReader) compact() {
	if in.r > 0 {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.p -= in.r
		in.r = 0
	}
}

// fillFirst waits for the first bytes and takes a buffer when they are there.
func (in *connReader) fillFirst() error {
	n, err := in.conn.Read(in.first[:])
	if n > 0 {
		in.take()
		in.w = copy(in.buf, in.first[:n])
		in.total += int64(n)
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// fillRaw waits for bytes without a buffer. One that is there already is used for
// the first attempt.
func (in *connReader) fillRaw() error {
	in.err = nil
	err := in.raw.Read(in.attempt)
	if err == nil {
		err = in.err
	}
	if err != nil { // perhaps before an attempt: the time was over
		in.release()
	}
	return err
}

// tryRead is one attempt to read from fd. It returns false to wait until the
// connection is readable.
func (in *connReader) tryRead(fd uintptr) bool {
	var wait bool
	if wait, in.err = in.more(fd); wait {
		in.park()
	}
	return !wait
}

// canGrow reports whether there is a larger buffer.
func (in *connReader) canGrow() bool { return in.window == nil }

// grow moves to a larger buffer, to see more of one message, if there is one.
func (in *connReader) grow() {
	if !in.canGrow() {
		return
	}
	window := in.windows.Get().(*[]byte)
	n := copy(*window, in.buf[in.r:in.w])
	in.release()
	in.window, in.buf = window, *window
	in.r, in.p, in.w = 0, 0, n
}

// take gets a buffer unless there is one.
func (in *connReader) take() {
	if in.buf != nil {
		return
	}
	in.pooled = bufPool.Get().(*[bufSize]byte)
	in.buf = in.pooled[:]
	in.r, in.p, in.w = 0, 0, 0
}

// release gives the buffer back. What it held is gone.
func (in *connReader) release() {
	if in.pooled != nil {
		bufPool.Put(in.pooled)
		in.pooled = nil
	}
	if in.window != nil {
		in.windows.Put(in.window)
		in.window = nil
	}
	in.buf = nil
	in.r, in.p, in.w = 0, 0, 0
}
