package mongobackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/modelmongo"
)

// operations run each kind of operation once; the key is the command.
func operations(coll *mongo.Collection) map[string]func(context.Context) error {
	db := coll.Database()
	one := bson.D{{Key: "n", Value: 1}}
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}
	return map[string]func(context.Context) error{
		"find":      func(ctx context.Context) error { return coll.FindOne(ctx, bson.D{}).Err() },
		"insert":    func(ctx context.Context) error { _, err := coll.InsertOne(ctx, one); return err },
		"update":    func(ctx context.Context) error { _, err := coll.UpdateMany(ctx, one, set); return err },
		"delete":    func(ctx context.Context) error { _, err := coll.DeleteMany(ctx, one); return err },
		"aggregate": func(ctx context.Context) error { _, err := coll.Aggregate(ctx, bson.A{}); return err },
		"count":     func(ctx context.Context) error { _, err := coll.EstimatedDocumentCount(ctx); return err },
		"ping":      func(ctx context.Context) error { return db.Client().Ping(ctx, readpref.Primary()) },
		"buildInfo": func(ctx context.Context) error { return db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Err() },
		"listCollections": func(ctx context.Context) error {
			_, err := db.ListCollectionNames(ctx, bson.D{})
			return err
		},
		"createIndexes": func(ctx context.Context) error {
			_, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: one})
			return err
		},
		"findAndModify": func(ctx context.Context) error { return coll.FindOneAndUpdate(ctx, one, set).Err() },
	}
}

// overloaded checks that an error is a refusal with these labels.
func overloaded(t *testing.T, err error, retryable bool) {
	t.Helper()
	var se interface { // of every driver generation
		error
		HasErrorCode(code int) bool
		HasErrorLabel(label string) bool
	}
	if !errors.As(err, &se) || !se.HasErrorCode(462) || !se.HasErrorLabel("SystemOverloadedError") ||
		se.HasErrorLabel("RetryableError") != retryable || se.HasErrorLabel("RetryableWriteError") {
		t.Errorf("error %v; want 462 labelled SystemOverloadedError, RetryableError: %v", err, retryable)
	}
}

// A driver of the newest generation starts every operation exactly three times
// when the gate always refuses, and once when the label is missing.
func TestAlwaysRefused(t *testing.T) {
	backend := startBackend(t)
	for name, tc := range map[string]struct {
		refusal mongogate.Refusal
		want    int
	}{
		"both labels":   {mongogate.Refusal{}, 3},
		"label missing": {mongogate.Refusal{DenyRetries: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := startGate(t, backend.Addr(), never(), mongogate.Options{Refusal: tc.refusal})
			e, m := monitor()
			c := connect(t, addr, options.Client().SetMonitor(m))
			coll := c.Database("shop").Collection("orders")
			_ = c.Ping(t.Context(), nil) // takes the only token
			e.take("ping")
			for command, run := range operations(coll) {
				overloaded(t, run(t.Context()), tc.want > 1)
				if n := e.take(command); n != tc.want {
					t.Errorf("%s was started %d times, want %d", command, n, tc.want)
				}
			}
		})
	}
}

// failPoint sets failCommand through the gate.
func failPoint(t *testing.T, c *mongo.Client, mode any, commands ...string) {
	t.Helper()
	err := c.Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: mode},
		{Key: "data", Value: bson.D{
			{Key: "failCommands", Value: commands},
			{Key: "errorCode", Value: 462},
			{Key: "errorLabels", Value: bson.A{"SystemOverloadedError", "RetryableError"}},
		}},
	}).Err()
	if err != nil {
		t.Fatalf("configureFailPoint: %v", err)
	}
}

// With every third command refused, all sequential operations succeed: 60
// operations are 90 attempts.
func TestEveryThirdRefused(t *testing.T) {
	_, addr := startGate(t, startBackend(t).Addr(), unlimited(), mongogate.Options{TestCommands: true})
	e, m := monitor()
	c := connect(t, addr, options.Client().SetMonitor(m))
	admin := connect(t, addr)
	coll := c.Database("shop").Collection("orders")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if i%2 == 1 { // the third command since the last refusal
			failPoint(t, admin, bson.D{{Key: "times", Value: 1}}, "find")
		}
		if err := coll.FindOne(t.Context(), bson.D{}).Err(); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	if n := e.take("find"); n != 90 {
		t.Errorf("find was started %d times, want 90", n)
	}
}

// A cursor survives a refused getMore, and is closed by the driver after three.
func TestGetMoreRefused(t *testing.T) {
	_, addr := startGate(t, startBackend(t).Addr(), unlimited(), mongogate.Options{TestCommands: true})
	e, m := monitor()
	c := connect(t, addr, options.Client().SetMonitor(m))
	coll := c.Database("shop").Collection("orders")
	var docs []any
	for i := range 6 {
		docs = append(docs, bson.D{{Key: "n", Value: i}})
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	read := func() (n int, err error) {
		cur, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(2))
		if err != nil {
			t.Fatal(err)
		}
		var all []bson.D
		err = cur.All(t.Context(), &all)
		return len(all), err
	}
	failPoint(t, c, bson.D{{Key: "times", Value: 1}}, "getMore")
	if n, err := read(); err != nil || n != 6 {
		t.Errorf("one getMore refused: %d documents, %v; want 6", n, err)
	}
	e.take("getMore")
	failPoint(t, c, "alwaysOn", "getMore")
	_, err := read()
	overloaded(t, err, true)
	if n := e.take("getMore"); n != 3 {
		t.Errorf("getMore was started %d times, want 3", n)
	}
}

// In a transaction the refused statement is repeated in place, and the commit
// is never refused. The server behind the gate is a model of a primary; the
// gate stands for it in the replica set.
func TestTransactionRefused(t *testing.T) {
	e, c := modelSet(t)
	s, err := c.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.EndSession(context.Background())
	_, err = s.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
		coll := c.Database("shop").Collection("orders")
		if _, err := coll.InsertOne(ctx, bson.D{{Key: "n", Value: 1}}); err != nil {
			return nil, fmt.Errorf("first statement: %w", err)
		}
		failPoint(t, c, bson.D{{Key: "times", Value: 2}}, "insert")
		_, err := coll.InsertOne(ctx, bson.D{{Key: "n", Value: 2}})
		return nil, err
	})
	if err != nil {
		t.Errorf("transaction: %v", err)
	}
	if n := e.take("insert"); n != 4 {
		t.Errorf("insert was started %d times, want 4: one, and one refused twice", n)
	}
	if n := e.take("commitTransaction"); n != 1 {
		t.Errorf("commitTransaction was started %d times, want 1", n)
	}
}

// modelSet runs a model primary of a replica set of which the clients know
// only the gate, and returns a client.
func modelSet(t *testing.T) (*events, *mongo.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	model := modelmongo.New(4, 0)
	model.Join("rs0", "db1.invalid:27017", "db1.invalid:27017", "db2.invalid:27017")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- model.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, addr := startGateOn(t, own, l.Addr().String(), unlimited(), mongogate.Options{
		TestCommands: true,
		Topology: mongogate.Topology{Mode: mongogate.TopologyMembers, Members: map[string]string{
			"db1.invalid:27017": own.Addr().String(),
		}},
	})
	e, m := monitor()
	return e, connect(t, addr, options.Client().SetMonitor(m).SetReplicaSet("rs0"))
}

// Drivers that connect by the members' addresses stay at the gate.
func TestReplicaSetStaysAtTheGate(t *testing.T) {
	_, c := modelSet(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 30 {
		if err := c.Database("shop").Collection("orders").FindOne(ctx, bson.D{}).Err(); err != nil {
			t.Fatalf("find: %v", err)
		}
	}
}
