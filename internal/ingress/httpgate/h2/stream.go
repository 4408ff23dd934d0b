package h2

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/httpgate/clientgone"
)

// waiter is who waits for the client, on one side of a stream.
type waiter struct {
	woken chan struct{}
	until time.Time // its deadline, which may be moved meanwhile; zero = none
}

// wake wakes who waits, or is about to.
func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// awaitLocked waits, without mu, to be woken, for at most a while (0 = without bound).
// It reports whether it was woken, and false when the deadline had passed before.
func (w *waiter) awaitLocked(mu sync.Locker, most time.Duration) (woken, ok bool) {
	if !w.until.IsZero() {
		left := time.Until(w.until)
		if left <= 0 {
			return false, false
		}
		if most == 0 || left < most {
			most = left
		}
	}
	var late <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		late = t.C
	}
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-w.woken:
		return true, true
	case <-late: // the deadline may have been moved
		return false, true
	}
}

// stream is a request and its answer. It is used for one after another; its zero
// value is not usable.
type stream struct {
	ss    *Session
	id    uint32
	visit Handler
	taken bool // the visit has decided about it
	lent  bool // somebody else has seen the request, and may yet
	request
	answer
	clientgone.Context

	body          // as the fields below guarded by the session's mu
	window  int64 // bytes of a body that the client takes
	writing waiter
	reading waiter
	closed  bool          // it is not one of those that are open any more
	gone    bool          // the client does not wait for the answer any more
	fate    http2.ErrCode // what its reset says when the answer is cut off
}

// newStream returns one that v is asked about.
func newStream(v Handler) *stream {
	st := &stream{visit: v}
	st.r = http.Request{Header: http.Header{}, Proto: "HTTP/2.0", ProtoMajor: 2}
	st.values, st.header = make([]string, 0, 32), http.Header{}
	st.writing.woken, st.reading.woken = make(chan struct{}, 1), make(chan struct{}, 1)
	return st
}

// begin makes st a stream of a session.
func (st *stream) begin(ss *Session, id uint32) {
	st.ss, st.id = ss, id
	st.taken, st.lent, st.closed, st.gone, st.window, st.fate = false, false, false, false, 0, http2.ErrCodeInternal
	st.r.RemoteAddr, st.r.TLS = ss.remote, ss.tls
	st.beginRequest()
	st.beginAnswer()
	st.beginBody()
	st.reading.until, st.writing.until = time.Time{}, ss.inlet.now.Add(ss.s.bounds.Load().WriteTimeout)
}

// complete makes the request whole, once its fields are here, and reports whether it
// is one. last says that it has no body.
func (st *stream) complete(last bool) bool {
	st.finished = last
	if !st.check(last) {
		return false
	}
	if !last {
		st.missing, st.r.Body = st.length, (*reader)(st)
	}
	return true
}

// serve takes a request to the end of its answer.
func (st *stream) serve() {
	ss, cut := st.ss, true
	defer ss.work.Done()
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // that very value
			ss.s.o.Log.Error("a request of HTTP/2 panicked", slog.String("ingress", ss.s.o.Name),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
		st.end(cut)
	}()
	switch {
	case st.taken && st.status != 0: // it was refused, and there was no room to say so
		cut = false
	case st.taken:
		cut = st.visit.Settle(&st.Context, st, &st.r)
	case st.visit.Takes(&st.r):
		cut = !st.visit.Offer(st, &st.r) && st.visit.Settle(&st.Context, st, &st.r)
	default:
		st.lent = true
		ss.s.o.Handler.ServeHTTP(st, st.r.WithContext(&st.Context))
		cut = false
	}
	cut = cut || st.finish() != nil
}

// end is the end of a request, whose answer was cut off or is whole.
func (st *stream) end(cut bool) {
	ss := st.ss
	ss.mu.Lock()
	defer ss.mu.Unlock()
	switch {
	case st.closed:
	case cut:
		_ = ss.framer.WriteRSTStream(st.id, st.fate)
	default: // the client need not send the rest
		ss.answerEarlyLocked(st.id)
	}
	if st.last {
		ss.retireLocked()
	}
	ss.closeStreamLocked(st, true)
	st.dropLocked()
	if st.lent { // its context ends with its handler
		st.Leave()
	}
	ss.kickLocked()
	if ss.running--; ss.running == 0 {
		ss.idle = time.Now()
	}
	if st.r.Body == http.NoBody && !cut && !st.lent && st.IsUnknown() {
		st.release(ss.s)
	}
}

// release gives st up for another request.
func (st *stream) release(s *Server) {
	st.ss = nil
	if max(cap(st.in), cap(st.head)) > kept || max(len(st.r.Header), len(st.header)) > cap(st.values) {
		return // the next would pay for it: maps do not shrink
	}
	s.streams.Put(st)
}

// leaveLocked says that the client does not wait for the answer any more.
func (st *stream) leaveLocked() {
	st.gone = true
	st.dropLocked()
	st.writing.wake()
	st.reading.wake()
	st.Leave()
}
