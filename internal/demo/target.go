package demo

import (
	"context"
	"fmt"
	"net"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/openloop"
)

// newTarget returns the demo of a protocol.
func newTarget(o *Options) (target, error) {
	switch o.Protocol {
	case "http":
		return &demoHTTP{}, nil
	case "mongodb":
		return newMongo(), nil
	case "postgres":
		return newPostgres(o.Real)
	default:
		return nil, fmt.Errorf("demo: --protocol must be http, mongodb, postgres or pulsar (%s)", o.Protocol)
	}
}

// demoWire is the demo over a wire protocol whose clients ask on a connection and
// wait: some that obey a refusal, and some that do not know what it means.
type demoWire struct {
	backend interface {
		Serve(ctx context.Context, ln net.Listener) error
		Restart()
	}
	first, second string // kinds of clients
	dial          func(gate string, obedient bool, policy client.Policy) (*pool, error)
}

// Start implements [target].
func (d *demoWire) Start(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo backend: %w", err)
	}
	go func() { _ = d.backend.Serve(ctx, ln) }() // ends with ctx
	return ln.Addr().String(), nil
}

// Restart implements [target].
func (d *demoWire) Restart() { d.backend.Restart() }

// Clients implements [target].
func (d *demoWire) Clients() (first, second string) { return d.first, d.second }

// Client implements [target].
func (d *demoWire) Client(_ context.Context, gate string, second bool) (func(context.Context) openloop.Sent, func(), error) {
	policy := client.Driver()
	if second {
		policy.MaxRetries = 0
	}
	p, err := d.dial(gate, !second, policy)
	if err != nil {
		return nil, nil, err
	}
	return p.send, p.close, nil
}
