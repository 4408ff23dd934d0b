package httpgate

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// maxUnheard bounds how much of an answer is read to nobody, in bytes. A longer
// one ends with its connection, and the backend's work with that.
const maxUnheard = 1 << 20

// tooLate is what a client is told whose deadline has passed.
const tooLate = "the backend did not answer before the deadline of the request"

// callerGone reports whether nobody waits for the answer any more: the client
// has left, or the time that it gave is over.
func (x *exchange) callerGone() bool {
	return x.ctx.Err() != nil || !x.deadline.IsZero() && !time.Now().Before(x.deadline)
}

// isWhole reports whether the backend has all of the request. Otherwise it
// cannot be working on it, once it is hung up on.
func (x *exchange) isWhole() bool {
	return x.bc != nil && (x.sent || x.up != nil && x.up.complete.Load())
}

// lateBody reports whether the caller's deadline passes before the first byte
// of a body. Nothing was said to it yet, so it can still be told. For the first
// byte of a body that the backend writes in pauses nobody waits here.
func (x *exchange) lateBody() bool {
	b := &x.body
	if x.deadline.IsZero() || b.IsOver() || x.head.IsStream() || b.Buffered() > 0 {
		return false
	}
	if !b.IsOfUnknownLength() {
		if _, err := x.bc.Reader.Peek(1); !isTimeout(err) {
			return false
		}
	}
	return x.callerGone()
}

// part ends the caller's share of an exchange of whose answer it heard nothing. A client
// whose deadline passed is told so; its patience says nothing against the
// backend.
func (x *exchange) part() result {
	w, r, late := x.w, x.r, x.ctx.Err() == nil
	if late {
		x.closeAfterBody()
	}
	res := result{err: errClient, outcome: limiter.Ignored, cut: true}
	if res.detached = x.goOn(); !res.detached {
		x.hangUp()
	}
	if late {
		res.err, res.status = errDeadline, http.StatusGatewayTimeout
		res.cut = problem(w, r, res.status, tooLate)
	}
	return res
}

// goOn lets the exchange go on without its caller, since a permit stands for
// work at the backend, and the backend does not stop working because nobody
// listens (ADR 13). It reports whether it did: then x belongs to a goroutine of its own.
// Otherwise there is no work to wait for, because the backend is to be hung up
// on and stops then.
func (x *exchange) goOn() bool {
	if x.up != nil {
		x.up.end()
		x.start = x.up.endedAt
	}
	if !x.isWhole() {
		return false
	}
	x.permit.Leave()
	if x.rt.o.CancelAbandoned {
		return false
	}
	if !x.stop() {
		<-x.bc.Left // or it would make a later read fail
	}
	if !x.rt.orphans.Add(x.bc) {
		return false
	}
	x.w, x.r, x.rc, x.ctx, x.stop, x.up = nil, nil, nil, nil, nil, nil
	go x.outlive()
	return true
}

// outlive reads the answer to nobody and ends the permit as if somebody had
// listened.
func (x *exchange) outlive() {
	o, whole := x.hear()
	x.end(o)
	x.rt.orphans.Remove(x.bc)
	x.giveBack(whole)
	x.release()
}

// hear reads the answer, or what is left of it, and reports how it ended and
// whether it was read to its end. It is bounded in time as for a caller that
// waits: the head by RequestTimeout, the rest by StreamIdle.
func (x *exchange) hear() (o limiter.Outcome, whole bool) {
	rt := x.rt
	if !x.body.HasBegun() {
		left := rt.o.RequestTimeout - time.Duration(rt.gate.Now()-x.start)
		_ = x.bc.SetDeadline(time.Now().Add(left)) // fails only when closed, which the next read tells
		if err := x.readAnswer(); err != nil {
			cause, _ := fault(err)
			return rt.blame(cause, err), false
		}
		if x.head.Status == http.StatusSwitchingProtocols {
			return limiter.Success, false
		}
		x.body = upstream.NewBody(x.bc.Reader, &x.head, x.method)
	}
	o = rt.judge(x.head.Status)
	if x.head.IsStream() {
		return o, false // it has no end
	}
	_ = x.bc.SetDeadline(time.Now().Add(rt.o.StreamIdle))
	for unheard := 0; unheard <= maxUnheard; {
		n, err := x.body.Read(x.buf)
		unheard += n
		switch {
		case errors.Is(err, io.EOF), err == nil && x.body.IsOver():
			return o, true
		case errors.Is(err, io.ErrUnexpectedEOF):
			return limiter.Dropped, false
		case err != nil:
			return limiter.Ignored, false
		}
	}
	return limiter.Ignored, false
}
