package roundtrip

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
)

// upload streams a request body to the backend while the exchange waits for
// the answer, which may come before the body is through.
type upload struct {
	rt       *Route
	caller   *caller
	link     *backendConn
	bc       *upstream.Conn // of link
	done     chan struct{}
	last     atomic.Bool // only the last write is left; the answer may come any time now
	complete atomic.Bool // the backend has all of it
	endedAt  int64       // gate's clock at the last write; read it after last
	err      error       // of the client's side; read it after done
	began    time.Time   // of the upload, less the time that the backend took; run's own
	until    time.Time   // when the client's next bytes are due; run's own

	mu       sync.Mutex // guards the fields below, and the deadlines that depend on them
	stopped  bool       // the exchange wants no more of the body
	answered bool       // the answer has begun
}

// startUpload starts to stream the body of x.
func startUpload(x *roundTrip) *upload {
	x.control()
	_ = x.rc.EnableFullDuplex() // HTTP/2 always is
	u := &upload{rt: x.rt, caller: &x.caller, link: &x.backendConn, bc: x.bc, done: make(chan struct{})}
	x.arm(0) // the backend may be silent while the client sends
	go u.run()
	return u
}

// run copies the body, and wakes the exchange when the client fails.
func (u *upload) run() {
	defer close(u.done)
	buf, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	clientErr, err := u.copy(*buf)
	switch {
	case clientErr != nil:
		u.mu.Lock()
		defer u.mu.Unlock()
		// net/http takes a read that failed for the client's end and wakes the
		// exchange, which may stop the upload before it is told that the client was
		// too slow. Otherwise a stopped upload is one whose reading end made fail.
		if !u.stopped || isTimeout(clientErr) && !time.Now().Before(u.until) {
			u.err = clientErr
			u.bc.Abort()
		}
	case err == nil:
		_ = u.caller.rc.SetReadDeadline(time.Time{}) // as in readSmall
		u.mu.Lock()
		defer u.mu.Unlock()
		if !u.stopped && !u.answered {
			u.link.arm(u.rt.RequestTimeout)
		}
		u.complete.Store(true)
	}
	// Otherwise the backend took no more. Its answer, if there is one, tells.
}

// copy sends the body in chunks or as it is.
func (u *upload) copy(buf []byte) (clientErr, err error) {
	chunked := u.caller.r.ContentLength < 0
	u.began = time.Now()
	var total int64
	for {
		if !u.armClient(total) {
			return errClient, nil
		}
		// Room before and after the data for the frame of a chunk.
		n, rerr := u.caller.r.Body.Read(buf[chunkRoom : len(buf)-2])
		if total += int64(n); u.rt.MaxBody > 0 && total > u.rt.MaxBody {
			return errTooLarge, nil
		}
		if total == u.caller.r.ContentLength || chunked && errors.Is(rerr, io.EOF) {
			u.endedAt = u.rt.Clock.Now()
			u.last.Store(true)
		}
		if n > 0 {
			before := time.Now()
			if err := u.send(buf, n, chunked); err != nil {
				return nil, err
			}
			u.began = u.began.Add(time.Since(before)) // the client is not to blame for the backend
		}
		switch {
		case errors.Is(rerr, io.EOF) && chunked:
			_, err := u.bc.Write(u.lastChunk(buf[:0]))
			return nil, err
		case errors.Is(rerr, io.EOF), total == u.caller.r.ContentLength:
			return nil, nil
		case rerr != nil:
			return clientError(rerr), nil
		}
	}
}

// chunkRoom is the space for a chunk's size line: eight digits and CRLF.
const chunkRoom = 10

// send writes the n bytes at buf[chunkRoom:] with one system call.
func (u *upload) send(buf []byte, n int, chunked bool) error {
	_ = u.bc.SetWriteDeadline(time.Now().Add(u.rt.StreamIdle)) // fails only when closed, which the write tells
	if !chunked {
		_, err := u.bc.Write(buf[chunkRoom : chunkRoom+n])
		return err
	}
	var line [chunkRoom]byte
	size := append(strconv.AppendInt(line[:0], int64(n), 16), '\r', '\n')
	from := chunkRoom - len(size)
	copy(buf[from:], size)
	copy(buf[chunkRoom+n:], "\r\n")
	_, err := u.bc.Write(buf[from : chunkRoom+n+2])
	return err
}

// lastChunk appends the last chunk and the trailers that came.
func (u *upload) lastChunk(b []byte) []byte {
	b = append(b, "0\r\n"...)
	for name, values := range u.caller.r.Trailer {
		if upstream.IsHop(name, "") || u.rt.Gate.WithholdsTrailer(name) {
			continue // as net/http says of trailers that were announced
		}
		for _, v := range values {
			b = upstream.AppendField(b, name, v)
		}
	}
	return append(b, "\r\n"...)
}

// armClient bounds the next read from the client, which has sent total bytes,
// unless the upload is over: by its silence and, until the answer begins, by its
// average rate. It moves the bound on writing the answer along: an upload may
// take as long as it flows.
func (u *upload) armClient(total int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return false
	}
	now, o := time.Now(), &u.rt.Options
	patience := o.StreamIdle
	if !u.answered {
		patience = min(patience, o.bodyTime(total)-now.Sub(u.began))
	}
	u.until = now.Add(patience)
	_ = u.caller.rc.SetReadDeadline(u.until) // without support the client's silence is not bounded
	if !u.answered {
		_ = u.caller.rc.SetWriteDeadline(now.Add(o.WriteTimeout()))
	}
	return true
}

// lastWrite is how long the end of an exchange waits for the last write of its
// body, which the backend has answered already.
const lastWrite = 100 * time.Millisecond

// answer tells the upload that the answer has begun, and reports whether the
// backend had all of the body by then, the last write perhaps under way.
func (u *upload) answer() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answered = true
	return u.last.Load()
}

// end stops the upload wherever it is and waits until it has stopped.
func (u *upload) end() {
	u.mu.Lock()
	u.stopped = true
	switch {
	case u.complete.Load():
	case u.last.Load():
		_ = u.bc.SetWriteDeadline(time.Now().Add(lastWrite))
	default:
		_ = u.caller.rc.SetReadDeadline(time.Unix(1, 0))
		u.bc.Abort()
	}
	u.mu.Unlock()
	<-u.done
}

// buffers holds buffers for bodies.
var buffers = sync.Pool{New: func() any { b := make([]byte, bodyBuffer); return &b }} //nolint:gochecknoglobals // a pool is global by nature
