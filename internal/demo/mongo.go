package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/lab/measure"
	"github.com/admitd/admitd/lab/openloop"
	"github.com/admitd/admitd/labels"
)

// newTarget returns the demo of a protocol.
func newTarget(protocol string) (target, error) {
	switch protocol {
	case "http":
		return &demoHTTP{}, nil
	case "mongodb":
		return &demoMongo{}, nil
	case "postgres":
		return &demoPostgres{}, nil
	default:
		return nil, fmt.Errorf("demo: --protocol must be http, mongodb, postgres or pulsar (%s)", protocol)
	}
}

// demoMongo is the demo over the MongoDB wire protocol.
type demoMongo struct{ backend *modelmongo.Server }

// demoConnections bounds the client's connections, as the pools of a few
// application servers do. More commands wait for one.
const demoConnections = 600

// Start implements [target].
func (d *demoMongo) Start(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo backend: %w", err)
	}
	d.backend = modelmongo.New(demoWorkers, demoService)
	go func() { _ = d.backend.Serve(ctx, ln) }() // ends with ctx
	return ln.Addr().String(), nil
}

// Restart implements [target].
func (d *demoMongo) Restart() { d.backend.Restart() }

// Clients implements [target].
func (*demoMongo) Clients() (first, second string) {
	return "gate on, new drivers", "gate on, old drivers"
}

// Client implements [target]: drivers that obey error 462, in the second
// kind such as know nothing of it.
func (*demoMongo) Client(_ context.Context, gate string, second bool) (func(context.Context) openloop.Sent, func(), error) {
	policy := client.Driver()
	if second {
		policy.MaxRetries = 0
	}
	c, err := client.New(client.Options{Policy: &policy, Classify: mongoFailure})
	if err != nil {
		return nil, nil, err
	}
	pool := &mongoPool{
		gate: gate, obedient: !second, client: c, idle: make(chan *modelmongo.Client, demoConnections), slots: make(chan struct{}, demoConnections),
		find: bsoncore.BuildDocument(nil, bsoncore.AppendStringElement(bsoncore.AppendStringElement(nil, "find", "orders"), "$db", "demo")),
	}
	return pool.send, pool.close, nil
}

// mongoFailure reads an error as the reference client does.
func mongoFailure(err error) *client.Failure {
	var refused *modelmongo.Error
	if !errors.As(err, &refused) {
		return nil
	}
	return &client.Failure{
		Err: err, Overload: slices.Contains(refused.Labels, labels.SystemOverloaded),
		Retryable: slices.Contains(refused.Labels, labels.Retryable), BaseBackoff: refused.BaseBackoff,
	}
}

// mongoPool keeps connections, as a driver does.
type mongoPool struct {
	gate     string
	obedient bool
	client   *client.Client
	find     bsoncore.Document
	idle     chan *modelmongo.Client
	slots    chan struct{} // one for each connection in use
}

// send runs one command.
func (p *mongoPool) send(ctx context.Context) openloop.Sent {
	sent := openloop.Sent{Verdict: measure.Answered}
	err := p.client.Do(ctx, client.Operation{Name: "find", Kind: client.Read, Run: func(ctx context.Context, _ *client.Attempt) error {
		sent.Attempts++
		start := time.Now()
		defer func() { sent.Last = time.Since(start) }()
		return p.once(ctx)
	}})
	var refused *modelmongo.Error
	switch {
	case err == nil:
	case errors.As(err, &refused):
		sent.Verdict = measure.Refused
	default:
		sent.Verdict = measure.Failed
	}
	return sent
}

// once sends the command once. When that times out the connection stays in use
// until the reply has come, as drivers with timeouts for whole operations do.
func (p *mongoPool) once(ctx context.Context) error {
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

// exchange sends the command, waits for its reply and gives the connection back.
func (p *mongoPool) exchange(c *modelmongo.Client, done chan<- error) {
	defer func() { <-p.slots }()
	err := c.Once(p.find)
	done <- err
	var refused *modelmongo.Error
	if err != nil && !errors.As(err, &refused) {
		_ = c.Close()
		return
	}
	p.idle <- c // has room for every slot
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
