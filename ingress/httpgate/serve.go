package httpgate

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// helloPath is answered by the gate itself when Options.Hello is set.
const helloPath = "/v1/hello"

// route is everything that a request meets on its way. It is immutable;
// [Server.Apply] replaces it as a whole.
type route struct {
	o       Options
	gate    *limiter.Gate
	id      *identifier
	pool    *upstream.Pool
	retries *atomic.Uint64 // requests that were sent again
	tunnels *strays
	orphans *strays
	backend *ingress.Backend
}

// ServeHTTP implements http.Handler: it takes one request from identification
// to release.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt := s.route.Load()
	if rt.o.Hello != nil && r.URL.Path == helloPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		rt.o.Hello.ServeHTTP(w, r)
		return
	}
	if status, detail := rt.unacceptable(r); status != 0 {
		if problem(w, r, status, detail) {
			panic(http.ErrAbortHandler)
		}
		return
	}
	var cut bool
	if rt.o.Observer == nil {
		_, cut = rt.serve(r.Context(), w, r)
	} else {
		cut = rt.observed(w, r) //nolint:contextcheck // the observer makes the context from r
	}
	if cut { // the only way to tell the client that the answer is not whole
		panic(http.ErrAbortHandler)
	}
}

// observed is serve for requests that somebody follows.
func (rt *route) observed(w http.ResponseWriter, r *http.Request) (cut bool) {
	ctx, span := rt.o.Observer.Begin(r)
	res, cut := rt.serve(ctx, w, r)
	if span != nil {
		span.End(res)
	}
	return cut
}

// serve identifies, admits and forwards, and reports how it ended and whether
// the answer was cut off.
func (rt *route) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) (Result, bool) {
	own := rt.beginOwn()
	req := rt.id.identify(r)
	req.Shape = rt.shapeOf(r)
	var until time.Time
	if req.MaxWait > 0 {
		until = time.Now().Add(req.MaxWait)
	}
	waited := rt.stopwatch()
	permit, err := rt.admit(ctx, w, req, &own)
	wait := waited()
	rt.saw(r, err)
	if err != nil {
		rej, ok := errors.AsType[*limiter.Rejection](err)
		if !ok { // the client went away while it waited
			return Result{Err: err, Outcome: limiter.Ignored, Wait: wait}, true
		}
		if req.Deadline > 0 { // a wait in vain used some of it up
			req.Deadline = max(time.Until(until), 1)
		}
		status, cut := rt.refuse(w, r, rej, req)
		return Result{Status: status, Partition: rej.Partition, Wait: wait, Err: rej}, cut
	}
	x, _ := exchanges.Get().(*exchange)
	x.rt, x.w, x.r, x.ctx, x.permit, x.own = rt, w, r, ctx, permit, own
	x.method, x.deadline, x.upgrade = r.Method, until, upgradeOf(r)
	res := x.serve()
	return Result{
		Status: res.status, Partition: permit.Partition(), Label: permit.Label(), Wait: wait, Outcome: res.outcome, Err: res.err,
	}, res.cut
}

// stopwatch returns what tells the time since this call. Nobody looks at the
// clock when nobody follows the request.
func (rt *route) stopwatch() func() time.Duration {
	if rt.o.Observer == nil {
		return noTime
	}
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

func noTime() time.Duration { return 0 }

// admit is the gate's decision. The time that a request waits is no part of the
// bound on writing its answer.
func (rt *route) admit(ctx context.Context, w http.ResponseWriter, req limiter.Request, own *ownTime) (limiter.Permit, error) {
	permit, ticket, err := rt.gate.Offer(rt.gate.Now(), req)
	if err != nil || ticket == nil {
		return permit, err
	}
	own.drop() // it waits
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // without support there is no bound to lift
	permit, err = ticket.Wait(ctx)
	_ = rc.SetWriteDeadline(time.Now().Add(rt.o.writeTimeout()))
	return permit, err
}
