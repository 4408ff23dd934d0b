package httpgate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// judge returns what a complete answer says about the backend's load.
func (rt *route) judge(status int) limiter.Outcome {
	switch {
	case status < 400:
		return limiter.Success
	case slices.Contains(rt.o.OverloadStatus, status):
		return limiter.Dropped
	case status >= 500, status == http.StatusTooManyRequests:
		return limiter.Ignored
	default:
		return limiter.Success
	}
}

// fault returns why the backend gave no answer, and how the client is told.
func fault(err error) (cause ingress.Cause, detail string) {
	switch {
	case isTimeout(err):
		return ingress.Silent, "the backend did not answer in time"
	case errors.Is(err, upstream.ErrBadResponse):
		return ingress.Garbled, "the backend's answer is not HTTP"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ingress.HungUp, "the backend closed the connection"
	}
	return ingress.Unreachable, "the backend cannot be reached"
}

// blame counts a failure of the backend and returns what it says about its load.
func (rt *route) blame(cause ingress.Cause, err error) limiter.Outcome {
	rt.backend.Failed(cause, err)
	if cause == ingress.Garbled {
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
