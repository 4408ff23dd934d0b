package roundtrip

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// maxUnheard bounds how much of an answer is read to nobody, in bytes. A longer
// one ends with its connection, and the backend's work with that.
const maxUnheard = 1 << 20

// maxUnfinished bounds how long a backend is not told that the rest of a request will
// not come. A backend that waits for it works no more once it is told. One that works
// already may close the connection when it is told, and work on (Node.js does), and
// then its permit ends too early.
const maxUnfinished = 2 * time.Second

// lateBody reports whether the caller's deadline passes before the first byte
// of a body. Nothing was said to it yet, so it can still be told. For the first
// byte of a body that the backend writes in pauses nobody waits here.
func (x *roundTrip) lateBody() bool {
	b := &x.body
	if x.deadline.IsZero() || b.IsOver() || x.head.IsStream() || b.Buffered() > 0 {
		return false
	}
	if !b.IsOfUnknownLength() {
		if _, err := x.bc.Reader.Peek(1); !isTimeout(err) {
			return false
		}
	}
	return x.isGone()
}

// part ends the caller's share of an exchange: it has left, it failed to send the
// request, or its deadline has passed. The latter two are told so, as f says, and
// what they did says nothing against the backend.
func (x *roundTrip) part(f failure) Result {
	rt, w, r := x.rt, x.w, x.r
	if f.detail != "" {
		x.closeAfterBody()
	}
	res := f.Result
	if res.detached = x.goOn(); !res.detached {
		x.hangUp()
	}
	if f.detail != "" {
		res.Cut = rt.Gate.Problem(w, r, res.Status, f.detail)
	}
	return res
}

// goOn lets the exchange go on without its caller, since a permit stands for
// work at the backend, and the backend does not stop working because nobody
// listens (ADR 13), nor does it always wait for the whole request before it begins
// (ADR 31). It reports whether it did: then x belongs to a goroutine of its own.
// Otherwise there is no work to wait for, because the backend has got nothing, or is
// to be hung up on and stops then.
func (x *roundTrip) goOn() bool {
	if !x.hasBegun() {
		return false
	}
	if x.up != nil {
		x.up.end()
		x.start = x.up.endedAt
	}
	whole := x.isWhole()
	switch {
	case !whole:
		x.start = x.clock.Now()
		x.permit.LeaveSampled(0)
	case x.sampled:
		x.permit.LeaveSampled(x.latency())
	default:
		x.permit.Leave()
	}
	if x.rt.CancelAbandoned {
		return false
	}
	if !x.stop() {
		<-x.bc.Left // or it would make a later read fail
	}
	if !x.rt.Abandoned.Add(x.bc) {
		return false
	}
	x.caller, x.stop, x.up = caller{}, nil, nil
	go abandoned{x, whole}.outlive()
	return true
}

// orphan is an exchange whose caller has left: its answer is read to nobody.
type abandoned struct {
	*roundTrip
	whole bool // the backend has all of the request
}

// outlive reads the answer to nobody and ends the permit as if somebody had
// listened. What is answered to a part of a request says nothing, and its connection
// is not used again.
func (x abandoned) outlive() {
	if !x.whole {
		defer time.AfterFunc(min(maxUnfinished, x.rt.BodyGrace), x.bc.EndWriting).Stop()
	}
	o, over := x.discard()
	if !x.whole {
		o, over = limiter.Ignored, false
	}
	x.end(o)
	x.rt.Abandoned.Remove(x.bc)
	x.giveBack(over)
	x.release()
}

// hear reads the answer, or what is left of it, and reports how it ended and
// whether it was read to its end. It is bounded in time as for a caller that
// waits: the head by RequestTimeout, the rest by StreamIdle.
func (x abandoned) discard() (o limiter.Outcome, whole bool) {
	rt := x.rt
	if !x.body.HasBegun() {
		left := rt.RequestTimeout - time.Duration(x.clock.Now()-x.start)
		_ = x.bc.SetDeadline(time.Now().Add(left)) // fails only when closed, which the next read tells
		if err := x.readAnswer(); err != nil {
			if !x.whole {
				return limiter.Ignored, false // not the backend's fault
			}
			cause, _ := fault(err)
			return rt.blame(cause, err), false
		}
		if x.head.Status == http.StatusSwitchingProtocols {
			return limiter.Success, false
		}
		x.body = upstream.NewBody(x.bc.Reader, &x.head, x.method)
	}
	o = rt.Gate.Judge(x.head.Status)
	if x.head.IsStream() {
		return o, false // it has no end
	}
	_ = x.bc.SetDeadline(time.Now().Add(rt.StreamIdle))
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
