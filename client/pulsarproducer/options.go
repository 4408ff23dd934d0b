package pulsarproducer

import (
	"context"
	"net"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// Options of a [Client]. The zero value works.
type Options struct {
	// Dial connects to host:port; nil = TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// KeepAlive is how long the connection may be silent before the client asks
	// whether the other side is there; after a second such time it is given up.
	// 0 = 30 s.
	KeepAlive time.Duration
	// Unaware clients do not announce that they understand ThrottleProducer.
	Unaware bool
	// IgnoreThrottling announces it and then neither answers nor obeys; for tests
	// of the other side.
	IgnoreThrottling bool
	// Throttled is told each time that a producer is throttled, and by how much
	// longer than it was already; 0 when the whole connection is paused for an
	// unknown time. It must not block. nil = nobody is told.
	Throttled func(topic string, reason pulsarwire.Reason, d time.Duration)
}

// ProducerOptions of a [Producer]. The zero value works.
type ProducerOptions struct {
	// Name of the producer; "" = the broker chooses one.
	Name string
	// SendTimeout bounds the wait for a receipt; 0 = 30 s. A context's deadline
	// that comes earlier counts instead.
	SendTimeout time.Duration
	// MaxPending bounds the messages without a receipt; more fail with
	// [ErrQueueFull], and so do all while 64 MiB wait to be written to the
	// connection. 0 = 1000.
	MaxPending int
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 30 * time.Second
	}
	if o.Throttled == nil {
		o.Throttled = func(string, pulsarwire.Reason, time.Duration) {}
	}
	return o
}

// withDefaults fills in what is zero.
func (o ProducerOptions) withDefaults() ProducerOptions {
	if o.SendTimeout <= 0 {
		o.SendTimeout = 30 * time.Second
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 1000
	}
	return o
}
