package demo

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/labels"
)

// newMongo returns the demo over the MongoDB wire protocol: drivers that obey error
// 462, in the second kind such as know nothing of it.
func newMongo() target {
	return &demoWire{
		backend: modelmongo.New(demoWorkers, demoService), first: "gate on, new drivers", second: "gate on, old drivers", dial: newMongoPool,
	}
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
