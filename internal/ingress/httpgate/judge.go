package httpgate

import (
	"net/http"
	"slices"

	"github.com/admitd/admitd/limiter"
)

// Judge implements [exchange.Gate]: what a complete answer says about the backend's
// load.
func (rt *route) Judge(status int) limiter.Outcome {
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
