package httpgate

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/admitd/admitd/limiter"
)

// relay passes the answer on. The permit's latency ends with the last byte
// from the backend; waiting for the client is left out.
func (x *exchange) relay() result {
	res := result{status: x.head.status, outcome: judge(x.head.status)}
	if x.up != nil {
		if x.up.answer() {
			x.start = x.up.endedAt
		} else {
			x.early(&res)
		}
	}
	stream := x.copyHeader()
	if stream {
		x.established(res.outcome)
		x.openEnd()
	}
	x.w.WriteHeader(x.head.status)
	b := newBody(x.bc.br, &x.head, x.r.Method)
	if !stream && !b.isOver() && (b.chunked || int64(b.br.Buffered()) < b.left) {
		x.arm(x.rt.o.StreamIdle) // until now it was for the head
	}
	if err := x.copyBody(&b, stream); err != nil {
		x.hangUp()
		res.err, res.cut = err, true
		switch {
		case errors.Is(err, errClient) || x.ctx.Err() != nil:
			res.err, res.outcome = errClient, limiter.Ignored
		case errors.Is(err, ErrBadResponse):
			res.outcome = limiter.Ignored
		default:
			res.outcome = limiter.Dropped
		}
		return res
	}
	for _, f := range b.trailer {
		if !isHop(f.name, "") && !isOurs(f.name) {
			h := x.w.Header()
			h[http.TrailerPrefix+f.name] = append(h[http.TrailerPrefix+f.name], f.value)
		}
	}
	x.finish(&b, res.outcome)
	return res
}

// judge returns what a complete answer says about the backend's load.
func judge(status int) limiter.Outcome {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return limiter.Dropped
	case status >= 500:
		return limiter.Ignored
	default:
		return limiter.Success
	}
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
	values := make([]string, len(x.head.fields)+1)
	for i := range x.head.fields {
		f := &x.head.fields[i]
		if isHop(f.name, x.head.listed) {
			continue
		}
		if old, ok := h[f.name]; ok {
			h[f.name] = append(old, f.value)
			continue
		}
		values[i] = f.value
		h[f.name] = values[i : i+1 : i+1]
	}
	if x.head.length >= 0 && x.head.status != http.StatusNoContent {
		last := len(values) - 1
		values[last] = x.head.lengthText
		h["Content-Length"] = values[last:]
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // no guessing
	}
	return strings.HasPrefix(x.head.value("Content-Type"), "text/event-stream")
}

// copyBody passes the body on. A body of unknown length is flushed whenever
// the backend pauses, its head too.
func (x *exchange) copyBody(b *body, stream bool) error {
	pauses := b.chunked || b.toEOF
	if pauses && b.br.Buffered() == 0 {
		if err := x.flush(); err != nil {
			return err
		}
	}
	for first := true; ; first = false {
		over, err := x.copyOnce(b, first, stream)
		if over || err != nil {
			return err
		}
		if stream || pauses && b.br.Buffered() == 0 {
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
}

// copyOnce passes on what one read yields and reports whether that was the end.
func (x *exchange) copyOnce(b *body, first, stream bool) (over bool, err error) {
	n, err := b.Read(x.buf)
	if n > 0 {
		if werr := x.write(x.buf[:n], first && b.isOver(), stream); werr != nil {
			return false, clientError(werr)
		}
	}
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return b.isOver(), err
}

// flush sends the client what was written so far.
func (x *exchange) flush() error {
	x.control()
	if err := x.rc.Flush(); err != nil {
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
	now := time.Now()
	if now.Sub(x.touched) > x.rt.o.StreamIdle/4 {
		x.control()
		x.touched = now
		if !stream {
			x.arm(x.rt.o.StreamIdle)
		}
		if !stream || x.r.ProtoMajor == 1 { // HTTP/2 would end a silent stream
			_ = x.rc.SetWriteDeadline(now.Add(x.rt.o.StreamIdle))
		}
	}
	before := x.rt.gate.Now()
	_, err := x.w.Write(p)
	x.waited += x.rt.gate.Now() - before
	return err
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
func (x *exchange) finish(b *body, o limiter.Outcome) {
	x.end(o)
	alive := x.stop()
	if x.up != nil {
		x.up.end()
		alive = alive && x.up.complete.Load()
	}
	if alive && !x.head.close && !b.toEOF {
		x.rt.upstream.put(x.bc)
	} else {
		_ = x.bc.Close()
	}
	x.bc = nil
	if !x.touched.IsZero() && x.r.ProtoMajor == 1 {
		_ = x.rc.SetWriteDeadline(time.Now().Add(x.rt.o.StreamIdle)) // for what net/http has still to write
	}
}

// end ends the permit with the backend's share of the latency.
func (x *exchange) end(o limiter.Outcome) {
	if !x.sampled && x.waited == 0 {
		x.permit.End(o)
		return
	}
	x.permit.EndSampled(max(time.Duration(x.rt.gate.Now()-x.start-x.waited), 1), o)
}
