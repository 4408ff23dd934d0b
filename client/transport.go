package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/admitd/admitd/labels"
)

// maxDrain is how much of a refused response's body is read, in bytes, so that
// its connection can carry the retry. Beyond that, closing it is cheaper.
const maxDrain = 64 << 10

// Transport is an http.RoundTripper that retries under its client's policy. It
// reads the rejections of our gates, and plain 429 and 503 from other servers;
// [ResponseFailure] says how. Every other response is handed on as it is. When
// retries end with a refusal, its response is returned with the body intact, so
// callers see what they would have seen without it. There is one exception: a
// refusal of a write says that nothing was changed, so it does not stand for an
// earlier attempt that may have changed something; then that attempt's failure is
// returned as the error.
//
// Each attempt announces "X-Admitd-Backpressure: 1" and, when the request has a
// deadline, the milliseconds left. A request with a body is sent again only when
// it has GetBody. It is safe for concurrent use.
type Transport struct {
	client *Client
	base   http.RoundTripper
}

// Transport returns a RoundTripper that sends through base, or through
// http.DefaultTransport when base is nil. All transports of a client share its
// budget.
func (c *Client) Transport(base http.RoundTripper) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport{client: c, base: base}
}

// CloseIdleConnections closes those of the base, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. It does not change req. An error of the
// base comes back as it was when nothing was retried, else within an [*Error].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	trip := &roundTrip{base: t.base, req: req}
	err := t.client.Do(req.Context(), Operation{
		Name: req.Method, Kind: requestKind(req), Run: trip.attempt,
	})
	if !trip.sent && req.Body != nil {
		req.Body.Close() // a RoundTripper closes the body whatever happens
	}
	if err == nil {
		return trip.resp, nil
	}
	gaveUp, ok := errors.AsType[*Error](err)
	if trip.resp != nil && (!ok || gaveUp.Canceled == nil && gaveUp.Err == error(trip.refused)) { //nolint:errorlint // the very same
		return trip.resp, nil
	}
	trip.discard()
	if f, ok := err.(*Failure); ok { //nolint:errorlint // only the wrapping of attempt itself is undone
		return nil, f.Err
	}
	return nil, err
}

type kindKey struct{}

// WithKind overrides what kind of operation the requests with this context are.
// Without it GET, HEAD, OPTIONS and TRACE are [Read], CONNECT is [Exempt], and
// the rest is [Write].
func WithKind(ctx context.Context, k Kind) context.Context {
	return context.WithValue(ctx, kindKey{}, k)
}

type attemptKey struct{}

// AttemptOf returns the attempt that a request with this context belongs to, or
// nil. The base of a [Transport] that selects servers finds there which to avoid,
// and sets Attempt.Server to the one it took.
func AttemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// requestKind returns the kind of a request.
func requestKind(req *http.Request) Kind {
	if k, ok := req.Context().Value(kindKey{}).(Kind); ok {
		return k
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "":
		return Read
	case http.MethodConnect:
		return Exempt
	}
	return Write
}

// roundTrip is one request on its way, over all its attempts.
type roundTrip struct {
	base http.RoundTripper
	req  *http.Request
	sent bool           // the base got the request, and with it the body to close
	resp *http.Response // of the last attempt, nil when it had none

	refused *Failure // what resp stands for, nil when it is no failure
}

// attempt sends the request once.
func (r *roundTrip) attempt(ctx context.Context, a *Attempt) error {
	r.discard()
	if r.req.URL != nil {
		a.Server = r.req.URL.Host
	}
	req, err := r.next(context.WithValue(ctx, attemptKey{}, a), a.Number())
	if err != nil {
		return &Failure{Err: err, Final: true, Reason: "body"}
	}
	r.sent = true
	resp, err := r.base.RoundTrip(req) //nolint:bodyclose // discard closes it, or the caller does
	if err != nil {
		f := networkFailure(r.req, err)
		f.Final = !replayable(r.req)
		return f
	}
	if err := complete(resp, req); err != nil {
		return &Failure{Err: err, Final: true, Reason: "base"}
	}
	r.resp = resp
	f := responseFailure(resp, r.req)
	if f == nil {
		return nil
	}
	f.Final = !replayable(r.req)
	r.refused = f
	return f
}

// complete gives a response of the base that has none a body, as net/http does; an
// error when that would hide content, or when there is no response.
func complete(resp *http.Response, req *http.Request) error {
	switch {
	case resp == nil:
		return errors.New("client: the base RoundTripper returned neither a response nor an error")
	case resp.Body != nil:
	case resp.ContentLength > 0 && req.Method != http.MethodHead:
		return fmt.Errorf("client: the base RoundTripper returned a response of %d bytes without a body", resp.ContentLength)
	default:
		resp.Body = http.NoBody
	}
	return nil
}

// next returns the request to send as attempt number n.
func (r *roundTrip) next(ctx context.Context, n int) (*http.Request, error) {
	req := r.req.Clone(ctx)
	if n > 0 && r.req.GetBody != nil {
		body, err := r.req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set(labels.HeaderBackpressure, "1")
	req.Header.Set(labels.HeaderAttempt, strconv.Itoa(n+1))
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline).Milliseconds(), 1)
		req.Header.Set(labels.HeaderDeadline, strconv.FormatInt(left, 10))
	}
	return req, nil
}

// drainPatience is how long the rest of a refusal may take that nobody reads.
const drainPatience = time.Second

// discard gives up the last response, reading a small rest of its body so that
// the connection can be used again.
func (r *roundTrip) discard() {
	if r.resp == nil {
		return
	}
	body := r.resp.Body
	slow := time.AfterFunc(drainPatience, func() { _ = body.Close() }) // a rest that drips is not worth the connection
	_, _ = io.CopyN(io.Discard, body, maxDrain)                        // best effort; Close copes with the rest
	slow.Stop()
	body.Close()
	r.resp = nil
}

// replayable reports whether the request can be sent again.
func replayable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// idempotent reports whether sending the request twice has the effect of
// sending it once: by its method (RFC 9110, 9.2.2), because the caller named it a
// read, or because it carries an idempotency key.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case http.MethodPut, http.MethodDelete:
		return true
	}
	return requestKind(req) == Read ||
		req.Header.Get("Idempotency-Key") != "" || req.Header.Get("X-Idempotency-Key") != ""
}

// networkFailure reads the error of an attempt that got no response.
func networkFailure(req *http.Request, err error) *Failure {
	f := &Failure{Err: err}
	if req.Context().Err() != nil || errors.Is(err, context.Canceled) {
		f.Reason = "canceled"
		return f
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		f.Reason = "dns" // says nothing about the server's load
		return f
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		f.Reason = "certificate"
		return f
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		// No byte of the request was sent, so it is safe to repeat whatever it is;
		// and a server that takes no connections is to be backed off from.
		f.Overload, f.Retryable, f.Reason = true, true, "dial"
		return f
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		// The server may still be at it: asking again at once would double its load.
		f.Reason = "timeout"
		return f
	}
	f.Reason, f.Transient = "network", idempotent(req)
	return f
}
