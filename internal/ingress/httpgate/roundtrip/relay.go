package roundtrip

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// answer is the backend's answer, of which the head is here, on its way to the
// caller. The silence of each side is bounded, and so is the rate at which the
// caller takes it.
type answer struct {
	*roundTrip
	outcome limiter.Outcome
	stream  bool      // of events: it has no end
	taken   int64     // bytes of the body that the client took
	touched time.Time // when the bounds were last moved; zero = never
	sending int64     // gate's clock when that began which waits for the client
	watched bool      // what waits for the client is
}

// relay passes the answer on. The permit's latency ends with the last byte
// from the backend; waiting for the client is left out.
func (a *answer) relay() Result {
	a.outcome = a.rt.Gate.Judge(a.head.Status)
	if a.up != nil {
		if a.up.answer() {
			a.start = a.up.endedAt
		} else {
			a.early()
		}
	}
	a.body = upstream.NewBody(a.bc.Reader, &a.head, a.method)
	if a.lateBody() {
		return a.part(a.failure(errDeadline, a.hasLeft()))
	}
	if err := a.body.Check(); err != nil { // nothing was said to the caller yet
		f := a.failure(err, a.hasLeft())
		a.hangUp()
		return a.part(f)
	}
	a.copyHead()
	if b := &a.body; !a.stream && !b.IsOver() && !b.IsHere() {
		a.arm(a.rt.StreamIdle) // until now it was for the head
	}
	if err := a.copyBody(); err != nil {
		return a.brokenOff(err)
	}
	for _, f := range a.body.Trailer() {
		if !upstream.IsHop(f.Name, "") && !upstream.IsOurs(f.Name) {
			h := a.w.Header()
			h[http.TrailerPrefix+f.Name] = append(h[http.TrailerPrefix+f.Name], f.Value)
		}
	}
	if !a.touched.IsZero() && a.r.ProtoMajor == 1 {
		_ = a.rc.SetWriteDeadline(time.Now().Add(a.rt.StreamIdle)) // for what net/http has still to write
	}
	return Result{Status: a.head.Status, Outcome: a.outcome}
}

// brokenOff is what an answer comes to that could not be passed on whole.
func (a *answer) brokenOff(err error) Result {
	res := Result{Status: a.head.Status, Outcome: a.outcome, Err: err, Cut: true}
	switch {
	case a.bc == nil: // the backend has done its part
		res.Err = errClient
		return res
	case errors.Is(err, errClient), a.hasLeft(), isTimeout(err) && a.isGone():
		res.Err, res.Outcome = errClient, limiter.Ignored
		if res.detached = !a.stream && a.goOn(); res.detached {
			return res
		}
	case errors.Is(err, upstream.ErrBadResponse):
		res.Outcome = limiter.Ignored
	default:
		res.Outcome = limiter.Dropped
	}
	a.hangUp()
	return res
}

// early handles an answer that comes before the body is through: its latency
// is not that of the whole request, and the rest of the body is not wanted.
func (a *answer) early() {
	if a.outcome == limiter.Success {
		a.outcome = limiter.Ignored
	}
	if a.r.ProtoMajor == 1 {
		a.w.Header()["Connection"] = closeValue
	}
}

// copyHead passes the head on, and finds out whether a stream of events follows:
// of that, both sides may be silent.
func (a *answer) copyHead() {
	a.copyFields()
	if timing := a.own.Timing(); timing != "" {
		a.w.Header()[TimingHeader] = []string{timing}
	}
	if a.stream = a.head.IsStream(); a.stream {
		a.established(a.outcome)
		a.control()
		a.deadline = time.Time{}
		a.arm(0)
		_ = a.rc.SetWriteDeadline(time.Time{}) // without support there is none to lift
	}
	a.w.WriteHeader(a.head.Status)
	a.own.pause()
	a.own.tell(a.rt.Own)
}

// copyFields passes the fields on.
func (a *answer) copyFields() {
	h := a.w.Header()
	values := make([]string, len(a.head.Fields)+1)
	for i := range a.head.Fields {
		f := &a.head.Fields[i]
		if upstream.IsHop(f.Name, a.head.Listed) {
			continue
		}
		if old, ok := h[f.Name]; ok {
			h[f.Name] = append(old, f.Value)
			continue
		}
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
	if a.head.Length >= 0 && a.head.Status != http.StatusNoContent {
		last := len(values) - 1
		values[last] = a.head.LengthText
		h["Content-Length"] = values[last:]
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // no guessing
	}
}

// copyBody passes the body on. A body of unknown length is flushed whenever
// the backend pauses, its head too. The backend's part is over with the last
// byte that it sends, however long the client takes for it.
func (a *answer) copyBody() error {
	pauses := a.body.IsOfUnknownLength()
	if pauses && a.body.Buffered() == 0 {
		if err := a.flush(); err != nil {
			return err
		}
	}
	for first := true; ; first = false {
		over, err := a.copyOnce(first)
		if over || err != nil {
			return err
		}
		if a.stream || pauses && a.body.Buffered() == 0 {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
}

// copyOnce passes on what one read yields and reports whether that was the end.
func (a *answer) copyOnce(first bool) (over bool, err error) {
	n, err := a.fetch()
	a.permit.Carried(int64(n))
	if over = errors.Is(err, io.EOF) || err == nil && a.body.IsOver(); over {
		a.finish()
		err = nil
	}
	if n > 0 {
		if werr := a.write(a.buf[:n], first && over); werr != nil {
			return over, clientError(werr)
		}
	}
	return over, err
}

// fetch reads the next piece of the body into a.buf: the rest of it when that is
// known to fit, so that the backend is done before the client is.
func (a *answer) fetch() (n int, err error) {
	b := &a.body
	n, err = b.Read(a.buf)
	for err == nil && !a.stream && b.Fits(len(a.buf)-n) {
		a.arm(a.rt.StreamIdle)
		var more int
		more, err = b.Read(a.buf[n:])
		n += more
	}
	return n, err
}

// finish ends the permit, since the backend has done its part, and gives the
// connection back.
func (a *answer) finish() {
	a.end(a.outcome)
	alive := a.stop()
	if a.up != nil {
		a.up.end()
		alive = alive && a.up.complete.Load()
	}
	a.giveBack(alive)
}

// flush sends the client what was written so far.
func (a *answer) flush() error {
	a.beginSending()
	if err := a.endSending(a.rc.Flush()); err != nil {
		return clientError(err)
	}
	return nil
}

// beginSending is the beginning of what may have to wait for the client.
func (a *answer) beginSending() {
	a.allow()
	a.sending = a.clock.Now()
	if a.bc == nil || a.stream {
		return // no permit is held, or not for this
	}
	a.watch.begin(a.rc, &a.permit)
	a.watched = true
}

// endSending is its end, with err. A write that was made to fail has failed, even when
// it succeeded first.
func (a *answer) endSending(err error) error {
	a.leaveOut(a.sending)
	if !a.watched {
		return err
	}
	a.watched = false
	if a.watch.end() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	return err
}

// write writes to the client. When there is more than one write, the time they
// take is kept apart from the backend's, and the silence of each side bounded.
func (a *answer) write(p []byte, only bool) error {
	if only && a.up == nil {
		_, err := a.w.Write(p)
		return err
	}
	a.beginSending()
	_, err := a.w.Write(p)
	a.taken += int64(len(p))
	return a.endSending(err)
}

// allow bounds what is written next, now and then: by the client's silence and
// by the average rate at which it takes the answer, so that who does not read
// cannot hold a permit for long. It moves the bound on the backend along.
func (a *answer) allow() {
	a.control()
	now, o := time.Now(), &a.rt.Options
	if now.Sub(a.touched) <= min(o.StreamIdle, o.BodyGrace)/4 {
		return
	}
	a.touched = now
	if a.stream {
		_ = a.rc.SetWriteDeadline(now.Add(o.StreamIdle)) // which a stream that is silent may pass
		return
	}
	if a.bc != nil {
		a.arm(o.StreamIdle)
	}
	patience := min(o.StreamIdle, o.bodyTime(a.taken)-time.Duration(a.waited))
	_ = a.rc.SetWriteDeadline(now.Add(patience)) // without support the client's sloth is not bounded
}
