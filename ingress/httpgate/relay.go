package httpgate

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// relay passes the answer on. The permit's latency ends with the last byte
// from the backend; waiting for the client is left out.
func (x *exchange) relay() result {
	res := result{status: x.head.Status, outcome: x.rt.judge(x.head.Status)}
	if x.up != nil {
		if x.up.answer() {
			x.start = x.up.endedAt
		} else {
			x.early(&res)
		}
	}
	x.body = upstream.NewBody(x.bc.Reader, &x.head, x.method)
	if x.lateBody() {
		return x.part()
	}
	stream := x.copyHeader()
	if timing := x.own.timing(x.rt); timing != "" {
		x.w.Header()[timingHeader] = []string{timing}
	}
	if stream {
		x.established(res.outcome)
		x.openEnd()
	}
	x.w.WriteHeader(x.head.Status)
	x.own.pause()
	x.own.tell(x.rt)
	if b := &x.body; !stream && !b.IsOver() && !b.IsHere() {
		x.arm(x.rt.o.StreamIdle) // until now it was for the head
	}
	if err := x.copyBody(stream, res.outcome); err != nil {
		return x.brokenOff(err, stream, res)
	}
	for _, f := range x.body.Trailer() {
		if !upstream.IsHop(f.Name, "") && !isOurs(f.Name) {
			h := x.w.Header()
			h[http.TrailerPrefix+f.Name] = append(h[http.TrailerPrefix+f.Name], f.Value)
		}
	}
	if !x.touched.IsZero() && x.r.ProtoMajor == 1 {
		_ = x.rc.SetWriteDeadline(time.Now().Add(x.rt.o.StreamIdle)) // for what net/http has still to write
	}
	return res
}

// brokenOff is what an answer comes to that could not be passed on whole.
func (x *exchange) brokenOff(err error, stream bool, res result) result {
	res.err, res.cut = err, true
	switch {
	case x.bc == nil: // the backend has done its part
		res.err = errClient
		return res
	case errors.Is(err, errClient), x.ctx.Err() != nil, isTimeout(err) && x.callerGone():
		res.err, res.outcome = errClient, limiter.Ignored
		if res.detached = !stream && x.goOn(); res.detached {
			return res
		}
	case errors.Is(err, upstream.ErrBadResponse):
		res.outcome = limiter.Ignored
	default:
		res.outcome = limiter.Dropped
	}
	x.hangUp()
	return res
}

// early handles an answer that comes before the body is through: its latency
// is not that of the whole request, and the rest of the body is not wanted.
func (x *exchange) early(res *result) {
	if res.outcome == limiter.Success {
		res.outcome = limiter.Ignored
	}
	if x.r.ProtoMajor == 1 {
		x.w.Header()["Connection"] = closeValue
	}
}

// copyHeader passes the fields on and reports whether a stream of events
// follows.
func (x *exchange) copyHeader() (stream bool) {
	h := x.w.Header()
	values := make([]string, len(x.head.Fields)+1)
	for i := range x.head.Fields {
		f := &x.head.Fields[i]
		if upstream.IsHop(f.Name, x.head.Listed) {
			continue
		}
		if old, ok := h[f.Name]; ok {
			h[f.Name] = append(old, f.Value)
			continue
		}
		values[i] = f.Value
		h[f.Name] = values[i : i+1 : i+1]
	}
	if x.head.Length >= 0 && x.head.Status != http.StatusNoContent {
		last := len(values) - 1
		values[last] = x.head.LengthText
		h["Content-Length"] = values[last:]
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // no guessing
	}
	return x.head.IsStream()
}

// copyBody passes the body on. A body of unknown length is flushed whenever
// the backend pauses, its head too. The backend's part is over with the last
// byte that it sends, however long the client takes for it.
func (x *exchange) copyBody(stream bool, o limiter.Outcome) error {
	pauses := x.body.IsOfUnknownLength()
	if pauses && x.body.Buffered() == 0 {
		if err := x.flush(stream); err != nil {
			return err
		}
	}
	for first := true; ; first = false {
		over, err := x.copyOnce(first, stream, o)
		if over || err != nil {
			return err
		}
		if stream || pauses && x.body.Buffered() == 0 {
			if err := x.flush(stream); err != nil {
				return err
			}
		}
	}
}

// copyOnce passes on what one read yields and reports whether that was the end.
func (x *exchange) copyOnce(first, stream bool, o limiter.Outcome) (over bool, err error) {
	n, err := x.fetch(stream)
	x.permit.Carried(int64(n))
	if over = errors.Is(err, io.EOF) || err == nil && x.body.IsOver(); over {
		x.finish(o)
		err = nil
	}
	if n > 0 {
		if werr := x.write(x.buf[:n], first && over, stream); werr != nil {
			return over, clientError(werr)
		}
	}
	return over, err
}

// fetch reads the next piece of the body into x.buf: the rest of it when that is
// known to fit, so that the backend is done before the client is.
func (x *exchange) fetch(stream bool) (n int, err error) {
	b := &x.body
	n, err = b.Read(x.buf)
	for err == nil && !stream && b.Fits(len(x.buf)-n) {
		x.arm(x.rt.o.StreamIdle)
		var more int
		more, err = b.Read(x.buf[n:])
		n += more
	}
	return n, err
}

// flush sends the client what was written so far.
func (x *exchange) flush(stream bool) error {
	x.allow(stream)
	before := x.rt.gate.Now()
	err := x.rc.Flush()
	x.waited += x.rt.gate.Now() - before
	if err != nil {
		return clientError(err)
	}
	return nil
}

// write writes to the client. When there is more than one write, the time they
// take is kept apart from the backend's, and the silence of each side bounded.
func (x *exchange) write(p []byte, only, stream bool) error {
	if only && x.up == nil {
		_, err := x.w.Write(p)
		return err
	}
	x.allow(stream)
	before := x.rt.gate.Now()
	_, err := x.w.Write(p)
	x.waited += x.rt.gate.Now() - before
	x.taken += int64(len(p))
	return err
}

// allow bounds what is written next, now and then: by the client's silence and
// by the average rate at which it takes the answer, so that who does not read
// cannot hold a permit for long. It moves the bound on the backend along.
func (x *exchange) allow(stream bool) {
	x.control()
	now, o := time.Now(), &x.rt.o
	if now.Sub(x.touched) <= min(o.StreamIdle, o.BodyGrace)/4 {
		return
	}
	x.touched = now
	if stream {
		if x.r.ProtoMajor == 1 { // HTTP/2 would end a silent stream
			_ = x.rc.SetWriteDeadline(now.Add(o.StreamIdle))
		}
		return
	}
	if x.bc != nil {
		x.arm(o.StreamIdle)
	}
	patience := min(o.StreamIdle, o.bodyTime(x.taken)-time.Duration(x.waited))
	_ = x.rc.SetWriteDeadline(now.Add(patience)) // without support the client's sloth is not bounded
}

// openEnd lifts the bounds on time from both sides of a stream.
func (x *exchange) openEnd() {
	x.control()
	x.deadline = time.Time{}
	x.arm(0)
	_ = x.rc.SetWriteDeadline(time.Time{}) // without support there is none to lift
}

// established ends the permit of a stream, with the time that it took to
// establish it, unless permits are held for as long as streams live.
func (x *exchange) established(o limiter.Outcome) {
	if x.rt.o.HoldStreams {
		return
	}
	x.end(o)
}

// finish ends the permit and gives the backend connection back.
func (x *exchange) finish(o limiter.Outcome) {
	x.end(o)
	alive := x.stop()
	if x.up != nil {
		x.up.end()
		alive = alive && x.up.complete.Load()
	}
	x.giveBack(alive)
}

// giveBack keeps the backend connection for the next exchange when it is alive
// and the answer was read to its end, and closes it otherwise.
func (x *exchange) giveBack(alive bool) {
	if alive && !x.head.Closes() && !x.body.EndsConnection() {
		x.rt.pool.Put(x.bc)
	} else {
		_ = x.bc.Close()
	}
	x.bc = nil
}

// end ends the permit with the backend's share of the latency.
func (x *exchange) end(o limiter.Outcome) {
	if !x.sampled && x.waited == 0 {
		x.permit.End(o)
		return
	}
	x.permit.EndSampled(max(time.Duration(x.rt.gate.Now()-x.start-x.waited), 1), o)
}
