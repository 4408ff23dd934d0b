package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/labels"
)

// newPostgres returns the demo over the PostgreSQL protocol: applications that read
// DETAIL and try again, in the second kind such as leave it at the error, as
// drivers do. No PostgreSQL client waits by itself, so the gate does, and how long
// depends on what was promised.
func newPostgres() target {
	return demoPostgres{&demoWire{
		backend: modelpostgres.New(demoWorkers, demoService), first: "gate on, apps that retry", second: "gate on, plain drivers",
		dial: func(gate string, _ bool, policy client.Policy) (*pool, error) { return newPostgresPool(gate, policy) },
	}}
}

// demoPostgres is that demo.
type demoPostgres struct{ *demoWire }

// Settings returns those of the gate.
func (demoPostgres) Settings() string { return fmt.Sprintf(`, "objective": %q`, demoObjective) }

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
