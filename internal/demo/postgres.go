package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/lab/openloop"
	"github.com/admitd/admitd/labels"
)

// demoPostgres is the demo over the PostgreSQL protocol.
type demoPostgres struct{ backend *modelpostgres.Server }

// Start implements [target].
func (d *demoPostgres) Start(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo backend: %w", err)
	}
	d.backend = modelpostgres.New(demoWorkers, demoService)
	go func() { _ = d.backend.Serve(ctx, ln) }() // ends with ctx
	return ln.Addr().String(), nil
}

// Restart implements [target].
func (d *demoPostgres) Restart() { d.backend.Restart() }

// Settings returns those of the gate: no PostgreSQL client waits by itself, so the
// gate does, and how long depends on what was promised.
func (*demoPostgres) Settings() string { return fmt.Sprintf(`, "objective": %q`, demoObjective) }

// Clients implements [target].
func (*demoPostgres) Clients() (first, second string) {
	return "gate on, apps that retry", "gate on, plain drivers"
}

// Client implements [target]: applications that read DETAIL and try again, in
// the second kind such as leave it at the error, as drivers do.
func (*demoPostgres) Client(_ context.Context, gate string, second bool) (func(context.Context) openloop.Sent, func(), error) {
	policy := client.Driver()
	if second {
		policy.MaxRetries = 0
	}
	p, err := newPostgresPool(gate, policy)
	if err != nil {
		return nil, nil, err
	}
	return p.send, p.close, nil
}

// postgresConn is a connection that asks one query.
type postgresConn struct{ *modelpostgres.Client }

// Ask implements [conn].
func (c postgresConn) Ask() error { return c.Query("select * from orders") }

// newPostgresPool returns a client of the gate.
func newPostgresPool(gate string, policy client.Policy) (*pool, error) {
	return newPool(policy, postgresFailure, func(ctx context.Context) (conn, error) {
		c, err := modelpostgres.Dial(ctx, gate)
		return postgresConn{c}, err
	})
}

// postgresFailure reads an error as the reference client does.
func postgresFailure(err error) *client.Failure {
	var refused *modelpostgres.Error
	if !errors.As(err, &refused) {
		return nil
	}
	return &client.Failure{
		Err: err, Overload: slices.Contains(refused.Labels, labels.SystemOverloaded),
		Retryable: slices.Contains(refused.Labels, labels.Retryable), RetryAfter: refused.RetryAfter,
	}
}
