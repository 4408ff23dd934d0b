package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/lab/measure"
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
	c, err := client.New(client.Options{Policy: &policy, Classify: postgresFailure})
	if err != nil {
		return nil, nil, err
	}
	pool := &postgresPool{
		gate: gate, client: c, idle: make(chan *modelpostgres.Client, demoConnections), slots: make(chan struct{}, demoConnections),
	}
	return pool.send, pool.close, nil
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

// postgresPool keeps connections, as pools of drivers do.
type postgresPool struct {
	gate   string
	client *client.Client
	idle   chan *modelpostgres.Client
	slots  chan struct{} // one for each connection in use
}

// send runs one query.
func (p *postgresPool) send(ctx context.Context) openloop.Sent {
	sent := openloop.Sent{Verdict: measure.Answered}
	err := p.client.Do(ctx, client.Operation{Name: "query", Kind: client.Read, Run: func(ctx context.Context, _ *client.Attempt) error {
		sent.Attempts++
		start := time.Now()
		defer func() { sent.Last = time.Since(start) }()
		return p.once(ctx)
	}})
	var refused *modelpostgres.Error
	switch {
	case err == nil:
	case errors.As(err, &refused):
		sent.Verdict = measure.Refused
	default:
		sent.Verdict = measure.Failed
	}
	return sent
}

// once sends the query once. When that takes too long the connection stays in
// use until the answer has come.
func (p *postgresPool) once(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := p.get(ctx)
	if err != nil {
		<-p.slots
		return err
	}
	done := make(chan error, 1)
	go p.exchange(c, done)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exchange sends the query, waits for its answer and gives the connection back.
func (p *postgresPool) exchange(c *modelpostgres.Client, done chan<- error) {
	defer func() { <-p.slots }()
	err := c.Query("select * from orders")
	done <- err
	var refused *modelpostgres.Error
	if err != nil && !errors.As(err, &refused) {
		_ = c.Close()
		return
	}
	p.idle <- c // has room for every slot
}

// get returns an idle connection, or a new one.
func (p *postgresPool) get(ctx context.Context) (*modelpostgres.Client, error) {
	select {
	case c := <-p.idle:
		return c, nil
	default:
	}
	c, err := modelpostgres.Dial(ctx, p.gate)
	if err != nil {
		return nil, fmt.Errorf("demo client: %w", err)
	}
	return c, nil
}

// close closes the idle connections.
func (p *postgresPool) close() {
	for {
		select {
		case c := <-p.idle:
			_ = c.Close()
		default:
			return
		}
	}
}
