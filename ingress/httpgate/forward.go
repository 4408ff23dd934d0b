package httpgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

const (
	// bodyBuffer is how much of a body is in memory at once, in bytes. Half of
	// it costs half as much again per byte.
	bodyBuffer = 32 << 10
	// smallUpload is the largest body that is read before the backend is
	// asked, in bytes: it goes out in one write with the head, can be sent
	// again, and a client that sends it slowly does not hold a connection.
	smallUpload = 16 << 10
	// maxInterim bounds the 1xx answers before the answer.
	maxInterim = 16
)

// Errors of the client's side of an exchange.
var (
	errTooLarge = errors.New("httpgate: request body above the bound")
	errClient   = errors.New("httpgate: client went away")
	errDeadline = errors.New("httpgate: client's deadline passed")
)

// exchange is one request on its way through the backend. It is used once and
// then pooled for the sake of its buffers. It belongs to the goroutine of the
// handler, until it goes on without its caller; see [exchange.goOn].
type exchange struct {
	rt     *route
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context //nolint:containedctx // an exchange lives exactly as long as its request
	permit limiter.Permit
	method string

	bc       *upstream.Conn
	stop     func() bool // takes back what happens to bc when the client leaves
	deadline time.Time   // the client's; zero = none
	upgrade  string      // what the client asks to switch to
	up       *upload     // nil unless the body streams
	wrote    int         // bytes of the request that bc took
	sent     bool        // all of the request, unless the body streams

	head    upstream.Head
	body    upstream.Body // of the answer, once its head was passed on
	out     []byte        // the request as it is sent
	buf     []byte        // bodyBuffer bytes
	start   int64         // gate's clock when the backend had the request
	waited  int64         // ns of it spent waiting for the client
	taken   int64         // bytes of the answer's body that the client took
	sampled bool          // the permit was held before start: its own latency is too long
	own     ownTime
	touched time.Time
	rc      *http.ResponseController // nil until control is called
}

// exchanges holds exchanges for their buffers.
var exchanges = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is global by nature
	return &exchange{buf: make([]byte, bodyBuffer), out: make([]byte, 0, 4<<10)}
}}

// release returns x to the pool.
func (x *exchange) release() {
	x.head.Reset()
	*x = exchange{buf: x.buf, out: x.out[:0], head: x.head}
	if cap(x.out) > 2*bodyBuffer {
		x.out = make([]byte, 0, 4<<10)
	}
	exchanges.Put(x)
}

// result is how an exchange ended.
type result struct {
	status   int // 0 = nothing was answered
	outcome  limiter.Outcome
	err      error
	cut      bool // the answer was begun and cannot be finished
	detached bool // the exchange goes on without its caller, and is not the handler's any more
}

// serve runs the exchange to its end, or until its caller has left.
func (x *exchange) serve() result {
	returned := false
	defer func() {
		if !returned { // forwarding panicked
			x.permit.End(limiter.Dropped)
		}
	}()
	res := x.run()
	returned = true
	if !res.detached {
		x.permit.End(res.outcome)
		x.release()
	}
	return res
}

// run takes the request to the backend and the answer to the client.
func (x *exchange) run() result {
	x.own.pause()
	if err := x.readSmall(); err != nil {
		return x.failed(err, x.ctx.Err() != nil)
	}
	x.own.resume()
	x.start, x.sampled = x.rt.gate.Now(), x.r.ContentLength != 0
	err := x.attempt(false)
	if err != nil && x.mayRetry(err) {
		x.rt.retries.Add(1)
		err = x.attempt(true)
	}
	if err != nil {
		left := x.ctx.Err() != nil // which hanging up on an upload makes true
		if x.bc != nil && isTimeout(err) && x.callerGone() {
			switch {
			case x.isWhole():
				return x.part()
			case !left:
				err = errors.Join(errDeadline, err)
			}
		}
		x.hangUp()
		return x.failed(err, left)
	}
	if x.head.Status == http.StatusSwitchingProtocols {
		return x.tunnel()
	}
	return x.relay()
}

// readSmall reads a small body into x.buf, where attempt finds it.
func (x *exchange) readSmall() error {
	n := x.r.ContentLength
	if n <= 0 || n > smallUpload {
		return nil
	}
	x.control()
	if err := x.rc.SetReadDeadline(time.Now().Add(min(x.rt.o.StreamIdle, x.rt.o.bodyTime(n)))); err != nil {
		return errClient
	}
	if _, err := io.ReadFull(x.r.Body, x.buf[:n]); err != nil {
		return clientError(err)
	}
	// net/http watches for the client's end of the connection from here on,
	// and would take the deadline for it.
	_ = x.rc.SetReadDeadline(time.Time{})
	return nil
}

// attempt sends the request and reads the head of the answer, on the first idle
// connection that is still good, or on a fresh one.
func (x *exchange) attempt(fresh bool) error {
	for {
		x.wrote, x.sent = 0, false
		if err := x.connect(fresh); err != nil {
			return err
		}
		err := x.ask()
		if err == nil {
			err = x.readAnswer()
			x.own.resume()
		}
		if !errors.Is(err, upstream.ErrStale) {
			return err
		}
		x.hangUp()
	}
}

// leaving is the context of a plain request: what [context.AfterFunc] does, without
// allocating, for one function at a time.
type leaving interface {
	OnLeave(f func()) (stop func() bool)
}

// connect takes a connection to the backend.
func (x *exchange) connect(fresh bool) (err error) {
	if fresh {
		x.bc, err = x.rt.pool.Dial(x.ctx)
	} else {
		x.bc, err = x.rt.pool.Get(x.ctx)
	}
	if err != nil {
		return err
	}
	if fresh || !x.bc.Used {
		x.own.drop() // connecting is the backend's time
	}
	if plain, ok := x.ctx.(leaving); ok {
		x.stop = plain.OnLeave(x.bc.Leave)
	} else {
		x.stop = context.AfterFunc(x.ctx, x.bc.Leave)
	}
	x.arm(x.rt.o.RequestTimeout)
	return nil
}

// ask sends the request, or begins to when its body streams.
func (x *exchange) ask() (err error) {
	n := x.r.ContentLength
	x.out = x.rt.appendRequest(x.out[:0], x.r, x.upgrade)
	if n >= 0 && n <= smallUpload {
		x.out = append(x.out, x.buf[:n]...)
		x.wrote, err = x.bc.Ask(x.out, x.own.pauser())
		x.sent = err == nil
		return err
	}
	if err = x.bc.Begin(); err != nil {
		return err
	}
	if x.wrote, err = x.bc.Write(x.out); err != nil {
		return err
	}
	x.up = startUpload(x)
	x.own.pause()
	return nil
}

// readAnswer reads the head of the answer, past interim ones.
func (x *exchange) readAnswer() error {
	for range maxInterim {
		if err := x.head.Read(x.bc.Reader, x.rt.o.MaxHeader); err != nil {
			return err
		}
		if x.head.Status >= 200 {
			x.rt.backend.Answered()
			return nil
		}
		if x.head.Status == http.StatusSwitchingProtocols {
			return x.mayTunnel()
		}
		x.interim()
	}
	return fmt.Errorf("%w: too many interim answers", upstream.ErrBadResponse)
}

// mayRetry reports whether the request can be sent again because the backend
// provably did not begin with it: it was sent on a connection that the backend
// had left, no byte of an answer came, and either no byte was sent or the
// method allows a repetition.
func (x *exchange) mayRetry(err error) bool {
	if x.bc == nil || !x.bc.Used || x.up != nil || x.ctx.Err() != nil || x.bc.Reader.Buffered() > 0 ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, upstream.ErrBadResponse) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	if x.wrote > 0 && !isIdempotent(x.r.Method) {
		return false
	}
	x.hangUp()
	return true
}

// isIdempotent reports whether a method may be repeated.
func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// arm bounds the next reads and writes on the backend connection, by the
// client's deadline too; d = 0 leaves only that.
func (x *exchange) arm(d time.Duration) {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if !x.deadline.IsZero() && (until.IsZero() || x.deadline.Before(until)) {
		until = x.deadline
	}
	_ = x.bc.SetDeadline(until) // fails only when closed, which the next read tells
	if x.ctx.Err() != nil {     // the client left before, and what that did was overwritten
		_ = x.bc.SetReadDeadline(time.Unix(1, 0))
	}
}

// control makes the response controller when it is needed for the first time.
func (x *exchange) control() {
	if x.rc == nil {
		x.rc = http.NewResponseController(x.w)
	}
}

// hangUp closes the backend connection and waits for the upload to notice.
func (x *exchange) hangUp() {
	if x.bc == nil {
		return
	}
	x.stop()
	_ = x.bc.Close()
	if x.up != nil {
		x.up.end()
	}
	x.bc = nil
}

// failed answers a request whose exchange came to nothing. left says that the
// client has gone.
func (x *exchange) failed(err error, left bool) result {
	res := result{err: err, outcome: limiter.Dropped, status: http.StatusBadGateway}
	if x.up != nil && x.up.err != nil {
		err = x.up.err // what made the reading of the answer fail
		res.err = err
	}
	var detail string
	switch {
	case errors.Is(err, errTooLarge):
		res.outcome, res.status, detail = limiter.Ignored, http.StatusRequestEntityTooLarge, "the request body is too large"
	case errors.Is(err, errClient) && errors.Is(err, os.ErrDeadlineExceeded):
		res.outcome, res.status, detail = limiter.Ignored, http.StatusRequestTimeout, "the request body came too slowly"
	case errors.Is(err, errClient) && !left && isMalformed(x.r, err):
		res.outcome, res.status, detail = limiter.Ignored, http.StatusBadRequest, "the request body is not framed as it should be"
	case errors.Is(err, errClient) || left:
		return result{err: errClient, outcome: limiter.Ignored, cut: true}
	case errors.Is(err, errDeadline):
		res.outcome, res.status, detail = limiter.Ignored, http.StatusGatewayTimeout, tooLate
	default:
		var cause ingress.Cause
		cause, detail = fault(err)
		res.outcome = x.rt.blame(cause, err)
		if cause == ingress.Silent {
			res.status = http.StatusGatewayTimeout
		}
	}
	x.closeAfterBody()
	res.cut = problem(x.w, x.r, res.status, detail)
	return res
}

// closeAfterBody closes an HTTP/1.1 connection after the answer when it is
// unknown what is left of the request's body.
func (x *exchange) closeAfterBody() {
	if n := x.r.ContentLength; x.r.ProtoMajor == 1 && (n < 0 || n > smallUpload || n > 0 && x.start == 0) {
		x.w.Header()["Connection"] = closeValue
	}
}
