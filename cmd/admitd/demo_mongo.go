package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/admitd/admitd/internal/testkit/modelmongo"
	"github.com/admitd/admitd/lab"
)

// newDemoTarget returns the demo of a protocol.
func newDemoTarget(protocol string) (demoTarget, error) {
	switch protocol {
	case "http":
		return &demoHTTP{}, nil
	case "mongodb":
		return &demoMongo{}, nil
	default:
		return nil, fmt.Errorf("demo: --protocol must be http, mongodb or pulsar (%s)", protocol)
	}
}

// demoMongo is the demo over the MongoDB wire protocol.
type demoMongo struct{ backend *modelmongo.Server }

// demoConnections bounds the client's idle connections.
const demoConnections = 4096

// Start implements [demoTarget].
func (d *demoMongo) Start(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo backend: %w", err)
	}
	d.backend = modelmongo.New(demoWorkers, demoService)
	go func() { _ = d.backend.Serve(ctx, ln) }() // ends with ctx
	return ln.Addr().String(), nil
}

// Restart implements [demoTarget].
func (d *demoMongo) Restart() { d.backend.Restart() }

// Clients implements [demoTarget].
func (*demoMongo) Clients() (first, second string) {
	return "gate on, new drivers", "gate on, old drivers"
}

// Client implements [demoTarget]: drivers that obey error 462, in the second
// kind such as know nothing of it.
func (*demoMongo) Client(_ context.Context, gate string, second bool) (func(context.Context) lab.Sent, func(), error) {
	pool := &mongoPool{gate: gate, obedient: !second, idle: make(chan *modelmongo.Client, demoConnections)}
	return pool.send, pool.close, nil
}

// mongoPool keeps connections, as a driver does.
type mongoPool struct {
	gate     string
	obedient bool
	idle     chan *modelmongo.Client
}

// send runs one command.
func (p *mongoPool) send(ctx context.Context) lab.Sent {
	c, err := p.get(ctx)
	if err != nil {
		return lab.Sent{Verdict: lab.Failed, Attempts: 1}
	}
	before, start := c.Attempts(), time.Now()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // as drivers do when a command times out
	err = c.Find(ctx, "demo", "orders")
	sent := lab.Sent{Verdict: lab.Answered, Attempts: int(c.Attempts() - before), Last: time.Since(start)}
	var refused *modelmongo.Error
	switch {
	case err == nil:
	case errors.As(err, &refused):
		sent.Verdict = lab.Refused
	default:
		sent.Verdict = lab.Failed
	}
	if !stop() || sent.Verdict == lab.Failed {
		_ = c.Close()
		return sent
	}
	select {
	case p.idle <- c:
	default:
		_ = c.Close()
	}
	return sent
}

// get returns an idle connection, or a new one.
func (p *mongoPool) get(ctx context.Context) (*modelmongo.Client, error) {
	select {
	case c := <-p.idle:
		return c, nil
	default:
	}
	c, err := modelmongo.Dial(ctx, p.gate, p.obedient)
	if err != nil {
		return nil, fmt.Errorf("demo client: %w", err)
	}
	return c, nil
}

// close closes the idle connections.
func (p *mongoPool) close() {
	for {
		select {
		case c := <-p.idle:
			_ = c.Close()
		default:
			return
		}
	}
}
