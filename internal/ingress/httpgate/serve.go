package httpgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
	"github.com/admitd/admitd/limiter"
)

// helloPath is answered by the gate itself when Options.Hello is set.
const helloPath = "/v1/hello"

// route is everything that a request meets on its way. It is immutable;
// [Server.Apply] replaces it as a whole.
type route struct {
	o      Options
	gate   *limiter.Gate
	counts *ingress.Counts
	id     *identifier
	out    roundtrip.Route // of those that are admitted
	worded *wordings
}

// ServeHTTP implements http.Handler: it takes one request from identification
// to release.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt := s.route.Load()
	if h, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && h.WriteTimeout != rt.out.WriteTimeout() {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(rt.out.WriteTimeout())) // net/http goes by the one it began with
	}
	if rt.o.Hello != nil && r.URL.Path == helloPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		rt.o.Hello.ServeHTTP(w, r)
		return
	}
	if status, detail := rt.unacceptable(r); status != 0 {
		if rt.turnBack(w, r, status, detail) {
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

// errInvalid is why a request is not forwarded whatever the load is.
var errInvalid = errors.New("httpgate: invalid request")

// turnBack answers a request that is not forwarded whatever the load is. It reports
// whether the connection must be cut.
func (rt *route) turnBack(w http.ResponseWriter, r *http.Request, status int, detail string) (cut bool) {
	if rt.o.Observer != nil {
		if _, span := rt.o.Observer.Begin(r); span != nil {
			defer span.End(Result{Status: status, Outcome: limiter.Ignored, Err: fmt.Errorf("%w: %s", errInvalid, detail)})
		}
	}
	return rt.Problem(w, r, status, detail)
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

// admission is what the gate said to a request.
type admission struct {
	req    limiter.Request
	own    roundtrip.OwnTime
	until  time.Time       // the client's deadline; zero = none
	began  time.Time       // of the decision; zero = nobody follows the request
	permit limiter.Permit  // of one that may go on
	ticket *limiter.Ticket // of one that has to wait
	err    error           // of one that may not
}

// visit is what the server does about plain requests; it is its [doorstep.Visit].
type visit struct {
	s  *Server
	rt *route // of the request
	admission
}

// Takes implements [doorstep.Visit].
func (v *visit) Takes(r *http.Request) bool {
	v.rt = v.s.route.Load()
	if v.rt.o.Observer != nil || v.rt.o.Hello != nil && r.URL.Path == helloPath {
		return false
	}
	status, _ := v.rt.unacceptable(r)
	return status == 0
}

// Offer implements [doorstep.Visit].
func (v *visit) Offer(w http.ResponseWriter, r *http.Request) (answered bool) {
	v.rt.offer(r, &v.admission)
	if v.err == nil {
		return false
	}
	v.rt.turnDown(w, r, &v.admission, 0)
	return true
}

// Settle implements [doorstep.Visit].
func (v *visit) Settle(ctx context.Context, w http.ResponseWriter, r *http.Request) (cut bool) {
	_, cut = v.rt.settle(ctx, w, r, &v.admission)
	return cut
}

// serve identifies, admits and forwards, and reports how it ended and whether
// the answer was cut off.
func (rt *route) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) (Result, bool) {
	var a admission
	rt.offer(r, &a)
	return rt.settle(ctx, w, r, &a)
}

// offer asks the gate about a request and does not wait.
func (rt *route) offer(r *http.Request, a *admission) {
	*a = admission{own: rt.out.BeginOwn()}
	if attempt, told := attemptOf(r.Header); told {
		rt.counts.Attempted(attempt)
	}
	a.req = rt.id.identify(r)
	a.req.Shape = rt.shapeOf(r)
	if a.req.MaxWait > 0 {
		a.until = time.Now().Add(a.req.MaxWait)
	}
	if rt.o.Observer != nil { // nobody looks at the clock otherwise
		a.began = time.Now()
	}
	a.permit, a.ticket, a.err = rt.gate.Offer(rt.gate.Now(), a.req)
}

// settle does what the gate said: wait, refuse, or forward.
func (rt *route) settle(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admission) (Result, bool) {
	if a.ticket != nil {
		rt.wait(ctx, w, a)
	}
	var waited time.Duration
	if !a.began.IsZero() {
		waited = time.Since(a.began)
	}
	if a.err != nil {
		return rt.turnDown(w, r, a, waited)
	}
	rt.saw(r, nil)
	permit := a.permit
	res := rt.out.Serve(&roundtrip.Admitted{W: w, R: r, Ctx: ctx, Permit: permit, Deadline: a.until, Own: a.own})
	return Result{
		Status: res.Status, Partition: permit.Partition(), Label: permit.Label(), Wait: waited, Outcome: res.Outcome, Err: res.Err,
	}, res.Cut
}

// turnDown answers a request that may not go on.
func (rt *route) turnDown(w http.ResponseWriter, r *http.Request, a *admission, waited time.Duration) (Result, bool) {
	rt.saw(r, a.err)
	rej, ok := errors.AsType[*limiter.Rejection](a.err)
	if !ok { // the client went away while it waited
		return Result{Err: a.err, Outcome: limiter.Ignored, Wait: waited}, true
	}
	if a.req.Deadline > 0 { // a wait in vain used some of it up
		a.req.Deadline = max(time.Until(a.until), 1)
	}
	status, cut := rt.refuse(w, r, rej, a)
	return Result{Status: status, Partition: rej.Partition, Wait: waited, Err: rej}, cut
}

// wait waits in the queue. That time is no part of the bound on writing the
// answer.
func (rt *route) wait(ctx context.Context, w http.ResponseWriter, a *admission) {
	a.own.Drop()
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // without support there is no bound to lift
	a.permit, a.err = a.ticket.Wait(ctx)
	_ = rc.SetWriteDeadline(time.Now().Add(rt.out.WriteTimeout()))
}
