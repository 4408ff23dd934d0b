package pulsarproducer

import (
	"errors"
	"fmt"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

var (
	// ErrClosed is returned for what can no longer happen because the producer
	// or its connection is closed.
	ErrClosed = errors.New("pulsarproducer: closed")
	// ErrQueueFull is returned for a message beyond MaxPending, or on a connection
	// with too much to write. It was not sent.
	ErrQueueFull = errors.New("pulsarproducer: too many messages without a receipt")
	// ErrTimeout is returned for a message without a receipt in time. It may have
	// been published.
	ErrTimeout = errors.New("pulsarproducer: no receipt in time")
)

// ProducerThrottledError is returned for a message that could not be published
// in time because its producer was throttled: at once when its deadline comes
// before the end of the throttling, or in place of a timeout when more than 80 %
// of the wait was throttling.
type ProducerThrottledError struct {
	Topic  string
	Reason pulsarwire.Reason
	// Remaining is how long the throttling will go on; 0 when it is over, or
	// when the end is not known.
	Remaining time.Duration
	// Sent reports whether the message had left the client. It may then have
	// been published.
	Sent bool
}

// Error implements error.
func (e *ProducerThrottledError) Error() string {
	return fmt.Sprintf("pulsarproducer: producer on %s is throttled (%s) for another %v", e.Topic, e.Reason, e.Remaining)
}

// Timeout marks the error as one that time will heal.
func (e *ProducerThrottledError) Timeout() bool { return true }

// ServerError is a refusal by the broker or the gate.
type ServerError struct {
	Code    pulsarwire.ServerError
	Message string
}

// Error implements error.
func (e *ServerError) Error() string {
	return fmt.Sprintf("pulsarproducer: server error %d: %s", e.Code, e.Message)
}
