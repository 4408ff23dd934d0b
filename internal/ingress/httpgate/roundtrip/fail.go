package roundtrip

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// Errors of the client's side of an exchange.
var (
	errTooLarge = errors.New("httpgate: request body above the bound")
	errClient   = errors.New("httpgate: client went away")
	errDeadline = errors.New("httpgate: client's deadline passed")
)

// tooLate is what a client is told whose deadline has passed.
const tooLate = "the backend did not answer before the deadline of the request"

// closeValue is shared: nobody writes to the values of a header.
var closeValue = []string{"close"} //nolint:gochecknoglobals // constant

// failure is what an exchange comes to without an answer from the backend.
type failure struct {
	Result
	detail   string // for the caller; "" = it is not told, because it has left
	byCaller bool   // it has left, or did not send the request as it should
}

// failure says what err comes to. left says that the client has gone.
func (x *roundTrip) failure(err error, left bool) failure {
	f := failure{Result: Result{Err: err, Outcome: limiter.Ignored}, byCaller: true}
	switch {
	case errors.Is(err, errTooLarge):
		f.Status, f.detail = http.StatusRequestEntityTooLarge, "the request body is too large"
	case errors.Is(err, errClient) && errors.Is(err, os.ErrDeadlineExceeded):
		f.Status, f.detail = http.StatusRequestTimeout, "the request body came too slowly"
	case errors.Is(err, errClient) && !left && isMalformed(x.r, err):
		f.Status, f.detail = http.StatusBadRequest, "the request body is not framed as it should be"
	case errors.Is(err, errClient) || left:
		f.Err, f.Cut = errClient, true
	case errors.Is(err, errDeadline):
		f.Err, f.Status, f.detail = errDeadline, http.StatusGatewayTimeout, tooLate
	default:
		var cause ingress.Cause
		cause, f.detail = fault(err)
		f.Outcome, f.Status, f.byCaller = x.rt.blame(cause, err), http.StatusBadGateway, false
		if cause == ingress.Silent {
			f.Status = http.StatusGatewayTimeout
		}
	}
	return f
}

// fault returns why the backend gave no answer, and how the client is told.
func fault(err error) (cause ingress.Cause, detail string) {
	switch {
	case isTimeout(err):
		return ingress.Silent, "the backend did not answer in time"
	case errors.Is(err, upstream.ErrHTTP2), isNoProtocol(err):
		return ingress.Garbled, "the backend does not speak HTTP/1.1, as it must: HTTP/2 only, as gRPC servers have it, is not enough"
	case errors.Is(err, upstream.ErrBadResponse):
		return ingress.Garbled, "the backend's answer is not HTTP"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return ingress.HungUp, "the backend closed the connection"
	}
	if ingress.LacksDescriptors(err) {
		return ingress.Unreachable, "the gate has no file descriptor left for the backend"
	}
	return ingress.Unreachable, "the backend cannot be reached"
}

// isNoProtocol reports whether err is the alert of a server of TLS that does not speak
// HTTP/1.1 (RFC 7301, section 3.2), of which crypto/tls shows the text alone.
func isNoProtocol(err error) bool {
	told, ok := errors.AsType[*net.OpError](err)
	return ok && told.Op == "remote error" && strings.HasSuffix(told.Err.Error(), "no application protocol")
}

// blame counts a failure of the backend and returns what it says about its load:
// nothing, when the answer is not HTTP or the gate lacked a descriptor.
func (rt *Route) blame(cause ingress.Cause, err error) limiter.Outcome {
	rt.Backend.Failed(cause, err)
	if cause == ingress.Garbled || ingress.LacksDescriptors(err) {
		return limiter.Ignored
	}
	return limiter.Dropped
}

// isTimeout reports whether err is a deadline that passed.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// isMalformed reports whether a body could not be read because of how its chunks
// are framed, and not because the client has gone.
func isMalformed(r *http.Request, err error) bool {
	_, network := errors.AsType[net.Error](err)
	return r.ProtoMajor == 1 && r.ContentLength < 0 && err != errClient && !network && //nolint:errorlint // bare: the client was given up
		!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed)
}

// clientError says that reading the request failed.
func clientError(err error) error { return errors.Join(errClient, err) }
