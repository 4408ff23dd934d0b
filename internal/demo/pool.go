package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
)

// demoConnections bounds a client's connections, as the pools of a few
// application servers do. More requests wait for one.
const demoConnections = 600

// conn is a connection of a client; one request runs on it at a time.
type conn interface {
	Ask() error // sends a request and waits for its answer
	Close() error
}

// pool is a client of a wire protocol with its connections, as drivers keep
// them. It is safe for concurrent use.
type pool struct {
	dial     func(context.Context) (conn, error)
	classify func(error) *client.Failure // nil = not a refusal: the connection is of no more use
	client   *client.Client
	idle     chan conn
	slots    chan struct{} // one for each connection in use
}

// newPool returns a client that retries as the policy says what classify calls
// a refusal.
func newPool(policy client.Policy, classify func(error) *client.Failure, dial func(context.Context) (conn, error)) (*pool, error) {
	c, err := client.New(client.Options{Policy: &policy, Classify: classify})
	if err != nil {
		return nil, err
	}
	return &pool{
		dial: dial, classify: classify, client: c,
		idle: make(chan conn, demoConnections), slots: make(chan struct{}, demoConnections),
	}, nil
}

// send makes one request, with its retries.
func (p *pool) send(ctx context.Context) openloop.Sent {
	sent := openloop.Sent{Verdict: measure.Answered}
	err := p.client.Do(ctx, client.Operation{Name: "read", Kind: client.Read, Run: func(ctx context.Context, _ *client.Attempt) error {
		sent.Attempts++
		start := time.Now()
		defer func() { sent.Last = time.Since(start) }()
		return p.once(ctx)
	}})
	switch {
	case err == nil:
	case p.classify(err) != nil:
		sent.Verdict = measure.Refused
	default:
		sent.Verdict = measure.Failed
	}
	return sent
}

// once makes the request once. When that takes too long the connection stays in
// use until the answer has come, as drivers with timeouts for whole operations
// do.
func (p *pool) once(ctx context.Context) error {
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

// exchange makes the request and gives the connection back.
func (p *pool) exchange(c conn, done chan<- error) {
	defer func() { <-p.slots }()
	err := c.Ask()
	done <- err
	if err != nil && p.classify(err) == nil {
		_ = c.Close()
		return
	}
	p.idle <- c // has room for every slot
}

// get returns an idle connection, or a new one.
func (p *pool) get(ctx context.Context) (conn, error) {
	select {
	case c := <-p.idle:
		return c, nil
	default:
	}
	c, err := p.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("demo client: %w", err)
	}
	return c, nil
}

// close closes the idle connections.
func (p *pool) close() {
	for {
		select {
		case c := <-p.idle:
			_ = c.Close()
		default:
			return
		}
	}
}
