package roundtrip

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
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

// exchange is one request on its way through the backend. It is used once and
// then pooled for the sake of its buffers. It belongs to the goroutine of the
// handler, until it goes on without its caller; see [exchange.goOn].
type roundTrip struct {
	rt *Route
	caller
	backendConn
	heldTime
	own     OwnTime
	method  string
	upgrade string // what the client asks to switch to

	head upstream.Head
	body upstream.Body // of the answer, once its head was passed on
	out  []byte        // the request as it is sent
	buf  []byte        // bodyBuffer bytes

	watch *stallWatch // of writes to the client
}

// Serve takes a request to its end, or until its caller has left. It ends the
// permit, perhaps later.
func (rt *Route) Serve(a *Admitted) Result {
	x, _ := exchanges.Get().(*roundTrip)
	x.begin(rt, a)
	returned := false
	defer func() {
		if !returned { // forwarding panicked
			x.watch.end()
			x.permit.End(limiter.Dropped)
		}
	}()
	res := x.run()
	returned = true
	if !res.detached {
		x.permit.End(res.Outcome)
		x.release()
	}
	return res
}

// exchanges holds exchanges for their buffers.
var exchanges = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is global by nature
	return &roundTrip{buf: make([]byte, bodyBuffer), out: make([]byte, 0, 4<<10), watch: newStallWatch()}
}}

// begin makes x the exchange of an admitted request.
func (x *roundTrip) begin(rt *Route, a *Admitted) {
	x.rt, x.own, x.method, x.upgrade = rt, a.Own, a.R.Method, upgradeOf(a.R)
	x.caller = caller{w: a.W, r: a.R, ctx: a.Ctx, deadline: a.Deadline}
	x.backendConn.caller = &x.caller
	x.heldTime = heldTime{permit: a.Permit, clock: rt.Clock}
}

// release returns x to the pool.
func (x *roundTrip) release() {
	x.head.Reset()
	*x = roundTrip{buf: x.buf, out: x.out[:0], head: x.head, watch: x.watch}
	if cap(x.out) > 2*bodyBuffer {
		x.out = make([]byte, 0, 4<<10)
	}
	exchanges.Put(x)
}

// run takes the request to the backend and the answer to the client.
func (x *roundTrip) run() Result {
	x.own.pause()
	if err := x.readSmall(x.buf, &x.rt.Options); err != nil {
		return x.part(x.failure(err, x.hasLeft()))
	}
	x.own.resume()
	x.handOver(x.r.ContentLength != 0)
	err := x.attempt(false)
	if err != nil && x.mayRetry(err) {
		x.hangUp()
		x.rt.Retries.Add(1)
		err = x.attempt(true)
	}
	switch {
	case err != nil:
		return x.unanswered(err)
	case x.head.Status == http.StatusSwitchingProtocols:
		return x.tunnel()
	}
	a := answer{roundTrip: x}
	return a.relay()
}

// attempt sends the request and reads the head of the answer, on the first idle
// connection that is still good, or on a fresh one.
func (x *roundTrip) attempt(fresh bool) error {
	for {
		if err := x.connect(x.rt.Pool, fresh); err != nil {
			return err
		}
		if !x.bc.Used {
			x.own.Drop() // connecting is the backend's time
		}
		x.arm(x.rt.RequestTimeout)
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

// ask sends the request, or begins to when its body streams.
func (x *roundTrip) ask() (err error) {
	x.out = x.rt.Gate.AppendHead(x.out[:0], x.r, x.upgrade)
	if x.isSmall() {
		x.out = append(x.out, x.buf[:x.r.ContentLength]...)
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
func (x *roundTrip) readAnswer() error {
	for range maxInterim {
		if err := x.head.Read(x.bc.Reader, x.rt.MaxHeader); err != nil {
			return err
		}
		if x.head.Status >= 200 {
			x.rt.Backend.Answered()
			x.rt.Counts.Responded(ingress.ResponseTo(x.head.Status))
			return nil
		}
		if x.head.Status == http.StatusSwitchingProtocols {
			if x.upgrade == "" {
				return fmt.Errorf("%w: switches protocols unasked", upstream.ErrBadResponse)
			}
			x.rt.Counts.Responded(ingress.Response2xx)
			return nil
		}
		x.interim(&x.head)
	}
	return fmt.Errorf("%w: too many interim answers", upstream.ErrBadResponse)
}

// giveBack keeps the connection to the backend for the next exchange when it is
// alive and the answer was read to its end, and closes it otherwise.
func (x *roundTrip) giveBack(alive bool) {
	if alive && !x.head.Closes() && !x.body.EndsConnection() {
		x.rt.Pool.Put(x.bc)
	} else {
		_ = x.bc.Close()
	}
	x.bc = nil
}

// established ends the permit of a stream, with the time that it took to
// establish it, unless permits are held for as long as streams live.
func (x *roundTrip) established(o limiter.Outcome) {
	if !x.rt.HoldStreams {
		x.end(o)
	}
}

// mayRetry reports whether the request can be sent again because the backend
// provably did not begin with it: it was sent on a connection that the backend
// had left, no byte of an answer came, and either no byte was sent or the
// method allows a repetition.
func (x *roundTrip) mayRetry(err error) bool {
	if x.bc == nil || !x.bc.Used || x.up != nil || x.hasLeft() || x.bc.Reader.Buffered() > 0 ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, upstream.ErrBadResponse) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	return x.wrote == 0 || isIdempotent(x.method)
}

// isIdempotent reports whether a method may be repeated.
func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// unanswered is what an exchange comes to of whose answer no head came.
func (x *roundTrip) unanswered(err error) Result {
	left := x.hasLeft() // which giving up on an upload makes true
	interrupted := isTimeout(err)
	if x.bc != nil && interrupted && !left && x.isGone() {
		err = errors.Join(errDeadline, err)
	}
	if x.up != nil {
		x.up.end()
		if x.up.err != nil { // what made the reading of the answer fail
			err = x.up.err
		}
	}
	f := x.failure(err, left)
	if !f.byCaller || !interrupted { // the backend has failed, or ended the connection
		x.hangUp()
	}
	return x.part(f)
}
