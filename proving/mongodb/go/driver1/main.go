// Command driver1 is Go's driver 1: work, refusals, and what a generation makes
// of them that knows nothing of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/admitd/admitd/proving/mongodb/go/facts"
)

const name = "go117"

// watch notes attempts and connections.
type watch struct {
	mu                     sync.Mutex
	began, created, closed int
	servers                []string
}

func (w *watch) take() (began, created, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began, created, closed = w.began, w.created, w.closed
	w.began, w.created, w.closed = 0, 0, 0
	return began, created, closed
}

func (w *watch) set(o *options.ClientOptions) {
	o.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "find" || e.CommandName == "insert" {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.began++
		}
	}})
	o.SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e.Type {
		case event.ConnectionCreated:
			w.created++
		case event.ConnectionClosed:
			w.closed++
		}
	}})
	o.SetServerMonitor(&event.ServerMonitor{TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.servers = nil
		for _, s := range e.NewDescription.Servers {
			w.servers = append(w.servers, string(s.Addr))
		}
	}})
}

func connect(ctx context.Context, w *watch, env string) *mongo.Client {
	o := options.Client().ApplyURI(os.Getenv(env)).SetServerSelectionTimeout(10 * time.Second)
	if w != nil {
		w.set(o)
	}
	c, err := mongo.Connect(ctx, o)
	facts.Must(err)
	return c
}

func refused(err error) bool {
	var e mongo.ServerError
	return errors.As(err, &e) && e.HasErrorCode(462) && e.HasErrorLabel("SystemOverloadedError") && e.HasErrorLabel("RetryableError")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 110*time.Second)
	defer cancel()
	w := &watch{}
	client := connect(ctx, w, "GATE")
	work(ctx, client)
	if !facts.Lacks("transactions") {
		atOnce(ctx, client)
	}
	w.mu.Lock()
	servers := fmt.Sprint(w.servers)
	w.mu.Unlock()
	facts.Fact("the driver knows of no server but the gate", servers == "[127.0.0.1:"+os.Getenv("GATE_PORT")+"]", servers)
	refusals(ctx, client, w)
	third(ctx, client, w)
	err := connect(ctx, nil, "WRONG").Database("db").Collection("things").FindOne(ctx, bson.D{}).Err()
	facts.Fact("a wrong password is the server's answer", err != nil && !refused(err) && !errors.Is(err, mongo.ErrNoDocuments), err)
	_, err = connect(ctx, nil, "TLS").Database(name).Collection("things").InsertOne(ctx, bson.D{{Key: "_id", Value: "tls"}})
	facts.Fact("the same over TLS to the gate", err == nil, err)
	facts.End()
}

func work(ctx context.Context, client *mongo.Client) {
	things := client.Database(name).Collection("things")
	facts.Must(things.Drop(ctx))
	docs := make([]any, 1000)
	for n := range docs {
		docs[n] = bson.D{{Key: "_id", Value: n}}
	}
	_, err := things.InsertMany(ctx, docs)
	facts.Must(err)
	c, err := things.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(100))
	facts.Must(err)
	n := 0
	for ; c.Next(ctx) && c.Current.Lookup("_id").AsInt64() == int64(n); n++ {
	}
	facts.Fact("login with SCRAM; 1000 documents in, a cursor of ten batches", n == 1000 && c.Err() == nil, n, c.Err())
}

// atOnce are a transaction and a change stream.
func atOnce(ctx context.Context, client *mongo.Client) {
	things := client.Database(name).Collection("things")
	session, err := client.StartSession()
	facts.Must(err)
	_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) {
		return things.InsertOne(ctx, bson.D{{Key: "_id", Value: "committed"}})
	})
	session.EndSession(ctx)
	there, countErr := things.CountDocuments(ctx, bson.D{{Key: "_id", Value: "committed"}})
	facts.Fact("a transaction", there == 1, err, countErr)
	stream, err := things.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(500*time.Millisecond))
	facts.Must(err)
	_, err = things.InsertOne(ctx, bson.D{{Key: "_id", Value: "watched"}})
	facts.Must(err)
	facts.Fact("a change stream", stream.Next(ctx) && stream.Current.Lookup("documentKey", "_id").StringValue() == "watched", stream.Err())
	facts.Must(stream.Close(ctx))
}

func refusals(ctx context.Context, client *mongo.Client, w *watch) {
	things := client.Database("spent").Collection("things")
	for what, op := range map[string]func() error{
		"a read":  func() error { return things.FindOne(ctx, bson.D{}).Err() },
		"a write": func() error { _, err := things.InsertOne(ctx, bson.D{{Key: "from", Value: name}}); return err },
	} {
		w.take()
		err := op()
		facts.Fact(what+" is refused with 462 and both labels", refused(err), err)
		began, created, closed := w.take()
		facts.Fact(what+": 1 attempt, on connections that are there", began == 1 && created+closed == 0, began, created, closed)
	}
	n, err := connect(ctx, nil, "DIRECT").Database("spent").Collection("things").CountDocuments(ctx, bson.D{{Key: "from", Value: name}})
	facts.Fact("a refused write is not at the server", n == 0 && err == nil, n, err)
}

// third: eight ask for about half as much again as the rate.
func third(ctx context.Context, client *mongo.Client, w *watch) {
	w.take()
	done, failed, other := facts.Rush(func() error {
		err := client.Database("third").Collection("things").FindOne(ctx, bson.D{}).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	}, refused)
	began, created, closed := w.take()
	facts.Fact(fmt.Sprintf("overloaded, every failure is 462 and no connection is lost: %d of 320 operations failed in %d attempts", failed, began),
		other == nil && created <= 8 && closed == 0 && done > 100, done, other, created, closed)
	facts.Brisk(fmt.Sprintf("%d %% of the attempts were refused", 100*(began-done)/began), began-done > 50, began-done)
}
