package pulsargate

import (
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// judge says what a broker's SEND_ERROR means for the limit: whether it speaks
// of overload or of the message.
func judge(code pulsarwire.ServerError) limiter.Outcome {
	switch code {
	case pulsarwire.PersistenceError, pulsarwire.ServiceNotReady, pulsarwire.TooManyRequests:
		return limiter.Dropped
	default:
		return limiter.Ignored
	}
}
