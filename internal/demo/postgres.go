package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/labels"
)

// newPostgres returns the demo over the PostgreSQL protocol: applications that read
// DETAIL and try again, in the second kind such as leave it at the error, as
// drivers do. No PostgreSQL client waits by itself, so the gate does, and how long
// depends on what was promised. The server is a model, or a real one of this
// machine when that is asked for.
func newPostgres(genuine bool) (target, error) {
	wire := &demoWire{
		backend: modelpostgres.New(demoWorkers, demoService), first: "gate on, apps that retry", second: "gate on, plain drivers",
		dial: func(gate string, _ bool, policy client.Policy) (*pool, error) { return newPostgresPool(gate, policy) },
	}
	if !genuine {
		return demoPostgres{wire}, nil
	}
	c := findCluster()
	if c == nil {
		return nil, errors.New("demo: --real needs a PostgreSQL server on this machine; Debian has it in the package postgresql")
	}
	return &realPostgres{demoPostgres{wire}, c, nil}, nil
}

// demoPostgres is that demo.
type demoPostgres struct{ *demoWire }

// Settings returns those of the gate.
func (demoPostgres) Settings() string { return fmt.Sprintf(`, "objective": %q`, demoObjective) }

// realPostgres is that demo before a real server. Its queries queue for as many
// locks as there are workers, each for the service time: that is its capacity,
// whatever the machine.
type realPostgres struct {
	demoPostgres

	cluster *cluster
	ended   <-chan struct{} // of the server
}

// Start implements [target].
func (r *realPostgres) Start(ctx context.Context) (address string, err error) {
	address, r.ended, err = r.cluster.start(ctx)
	return address, err
}

// Restart implements [target]: the sessions that are left are ended.
func (r *realPostgres) Restart() {
	ctx, cancel := context.WithTimeout(context.Background(), restartTimeout) //nolint:forbidigo // it has no other
	defer cancel()
	_ = r.cluster.sql(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'demo'")
}

// restartTimeout bounds the end of all sessions.
const restartTimeout = 10 * time.Second

// Backend says what the server is.
func (*realPostgres) Backend() string {
	return "a PostgreSQL server of this machine, thrown away afterwards"
}

// Stop waits until nothing of the server is left.
func (r *realPostgres) Stop() {
	if r.ended != nil {
		<-r.ended
	}
}

// postgresConn is a connection that asks one query.
type postgresConn struct {
	*modelpostgres.Client

	asked *atomic.Uint64 // by all of a pool
}

// Ask implements [conn]. A model takes any text; a real server has as many locks
// as it has workers, and works while it holds one.
func (c postgresConn) Ask() error {
	return c.Query(fmt.Sprintf("select pg_advisory_xact_lock(%d), pg_sleep(%g)", c.asked.Add(1)%demoWorkers, demoService.Seconds()))
}

// newPostgresPool returns a client of the gate.
func newPostgresPool(gate string, policy client.Policy) (*pool, error) {
	var asked atomic.Uint64
	return newPool(policy, postgresFailure, func(ctx context.Context) (conn, error) {
		c, err := modelpostgres.Dial(ctx, gate)
		return postgresConn{c, &asked}, err
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
