package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelmongo"
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
	p, err := newMongoPool(gate, !second, policy)
	if err != nil {
		return nil, nil, err
	}
	return p.send, p.close, nil
}

// mongoConn is a connection that asks for one document.
type mongoConn struct {
	*modelmongo.Client
	find bsoncore.Document
}

// Ask implements [conn].
func (c mongoConn) Ask() error { return c.Once(c.find) }

// newMongoPool returns a client whose drivers obey error 462, or know nothing
// of it.
func newMongoPool(gate string, obedient bool, policy client.Policy) (*pool, error) {
	find := bsoncore.BuildDocument(nil, bsoncore.AppendStringElement(bsoncore.AppendStringElement(nil, "find", "orders"), "$db", "demo"))
	return newPool(policy, mongoFailure, func(ctx context.Context) (conn, error) {
		c, err := modelmongo.Dial(ctx, gate, obedient)
		return mongoConn{c, find}, err
	})
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
