package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

const (
	// DefaultDialTimeout bounds connecting to one backend.
	DefaultDialTimeout = 5 * time.Second
	// avoidFor is how long a backend that could not be dialled is left alone
	// while there are others.
	avoidFor = 5 * time.Second
)

// Dialer connects to one of several backends, in turn. When one cannot be
// dialled nothing was forwarded to it, so the next is tried; the one that
// failed is left alone for 5 s unless all have failed. It is safe for
// concurrent use.
type Dialer struct {
	addresses []string
	allow     func(address string) bool // nil = only addresses
	timeout   time.Duration
	dial      DialFunc
	turn      atomic.Uint32
	health    *ingress.Health
	failed    []atomic.Int64 // Unix ns of the last failure, by backend; 0 = it answered since
}

// DialFunc connects to an address. It may speak before it returns: TLS, or a
// protocol's way of asking for it.
type DialFunc func(ctx context.Context, address string) (net.Conn, error)

// NewDialer returns a dialer to the addresses, host:port each. A timeout of 0
// is [DefaultDialTimeout], and bounds each attempt; a nil dial is plain TCP.
func NewDialer(addresses []string, timeout time.Duration, dial DialFunc) *Dialer {
	return &Dialer{
		addresses: addresses, timeout: ingress.Or(timeout, DefaultDialTimeout), dial: orTCP(dial),
		failed: make([]atomic.Int64, len(addresses)), health: ingress.NewHealth(addresses...),
	}
}

// Allow has sessions keep their connections to further addresses than the dialer's,
// those that allow says; see [Relay.Apply]. It must be called before the dialer
// is used.
func (d *Dialer) Allow(allow func(address string) bool) { d.allow = allow }

// allowed reports whether a session may keep its connection to address.
func (d *Dialer) allowed(address string) bool {
	return slices.Contains(d.addresses, address) || d.allow != nil && d.allow(address)
}

// succeed takes over what old knows of how backends answer.
func (d *Dialer) succeed(old *Dialer) {
	if d == old {
		return
	}
	addresses := d.health.Addresses()
	d.health = old.health
	d.health.Keep(addresses...)
}

// Health returns how the backends answer. The dialer tells it of those that
// cannot be dialled, a [Relay] of answers and of connections that are lost.
func (d *Dialer) Health() *ingress.Health { return d.health }

// Dial connects to address, or to the next backend in turn when it is empty. It
// returns the address that it tried last.
func (d *Dialer) Dial(ctx context.Context, address string) (c net.Conn, at string, err error) {
	if address != "" {
		c, err = d.try(ctx, address)
		return c, address, err
	}
	err = errors.New("relay: no backend")
	for _, k := range d.order() {
		at = d.addresses[k]
		if c, err = d.try(ctx, at); err == nil {
			d.failed[k].Store(0)
			return c, at, nil
		}
		if !ingress.LacksDescriptors(err) {
			d.failed[k].Store(time.Now().UnixNano())
		}
	}
	return nil, at, err
}

// order returns the backends in the order to try them: in turn, and those that
// failed of late last.
func (d *Dialer) order() []int {
	n := len(d.addresses)
	first := int(d.turn.Add(1)-1) % max(n, 1)
	order, avoided := make([]int, 0, n), []int(nil)
	for i := range n {
		if k := (first + i) % n; d.avoids(k) {
			avoided = append(avoided, k)
		} else {
			order = append(order, k)
		}
	}
	return append(order, avoided...)
}

// avoids reports whether the backend failed of late.
func (d *Dialer) avoids(k int) bool {
	at := d.failed[k].Load()
	return at != 0 && time.Since(time.Unix(0, at)) < avoidFor
}

// try dials once.
func (d *Dialer) try(ctx context.Context, address string) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := d.dial(bounded, address)
	if err != nil && ctx.Err() == nil { // else nobody waited for it
		d.health.Of(address).Failed(undialled(err), err)
	}
	return c, err
}

// undialled returns why a backend could not be dialled.
func undialled(err error) ingress.Cause {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return ingress.Silent
	}
	return ingress.Unreachable
}

// Then returns a dial func that speaks over what dial connects to, nil = TCP, and
// goes on with what speak returns. When that fails it closes the connection.
func Then(dial DialFunc, speak func(ctx context.Context, c net.Conn, address string) (net.Conn, error)) DialFunc {
	dial = orTCP(dial)
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		next, err := speak(ctx, c, address)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		return next, nil
	}
}

// WithTLS returns a dial func that speaks TLS over what dial connects to, nil =
// TCP, or dial when conf is nil. An empty ServerName is filled in from the address.
func WithTLS(dial DialFunc, conf *tls.Config) DialFunc {
	if conf == nil {
		return dial
	}
	return Then(dial, func(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
		conf := conf
		if conf.ServerName == "" && !conf.InsecureSkipVerify {
			conf = conf.Clone()
			conf.ServerName, _, _ = net.SplitHostPort(address) // an address that was dialled
		}
		t := tls.Client(c, conf)
		return t, t.HandshakeContext(ctx)
	})
}

// orTCP returns dial, or plain TCP when it is nil.
func orTCP(dial DialFunc) DialFunc {
	if dial != nil {
		return dial
	}
	var d net.Dialer
	return func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}
