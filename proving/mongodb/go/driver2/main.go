// Command driver2 is Go's driver 2: work, refusals, and what this generation
// makes of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/admitd/admitd/proving/mongodb/go/facts"
)

const (
	name     = "go29"
	attempts = 3
)

// refused reports whether err is the gate's refusal as it should be.
func refused(err error) bool {
	var e mongo.ServerError
	return errors.As(err, &e) && e.HasErrorCode(462) && e.HasErrorLabel("SystemOverloadedError") && e.HasErrorLabel("RetryableError")
}

func connect(w *watch, env string, more ...func(*options.ClientOptions)) *mongo.Client {
	o := options.Client().ApplyURI(os.Getenv(env)).SetServerSelectionTimeout(10 * time.Second)
	if w != nil {
		o.SetMonitor(w.commands()).SetPoolMonitor(w.pool()).SetServerMonitor(w.servers())
	}
	for _, set := range more {
		set(o)
	}
	c, err := mongo.Connect(o)
	facts.Must(err)
	return c
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 110*time.Second)
	defer cancel()
	w := &watch{}
	client := connect(w, "GATE")
	work(ctx, client.Database(name).Collection("things"))
	if !facts.Lacks("transactions") {
		transactions(ctx, client)
		changeStream(ctx, client.Database(name).Collection("things"))
	}
	unacknowledged(ctx, client)
	addresses := w.knows()
	facts.Fact("the driver knows of no server but the gate", slices.Equal(addresses, []string{"127.0.0.1:" + os.Getenv("GATE_PORT")}), addresses)
	refusals(ctx, client, w)
	waits(ctx, client, w)
	third(ctx, client, w)
	facts.Must(client.Disconnect(ctx))
	pools(ctx)
	if !facts.Lacks("streams") {
		monitors(ctx)
	}
	wrong := connect(nil, "WRONG")
	err := wrong.Database("db").Collection("things").FindOne(ctx, bson.D{}).Err()
	facts.Fact("a wrong password is the server's answer", err != nil && isAuth(err), err)
	inOtherWays(ctx)
	facts.End()
}

// work writes and reads.
func work(ctx context.Context, things *mongo.Collection) {
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

func transactions(ctx context.Context, client *mongo.Client) {
	things := client.Database(name).Collection("things")
	session, err := client.StartSession()
	facts.Must(err)
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		return things.InsertOne(ctx, bson.D{{Key: "_id", Value: "committed"}})
	})
	facts.Must(err)
	facts.Must(session.StartTransaction())
	_, err = things.InsertOne(mongo.NewSessionContext(ctx, session), bson.D{{Key: "_id", Value: "aborted"}})
	facts.Must(err)
	facts.Must(session.AbortTransaction(ctx))
	there, err := things.CountDocuments(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{"committed", "aborted"}}}}})
	facts.Fact("a transaction that commits, and one that aborts", there == 1, there, err)
}

func changeStream(ctx context.Context, things *mongo.Collection) {
	stream, err := things.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(500*time.Millisecond))
	facts.Must(err)
	_, err = things.InsertOne(ctx, bson.D{{Key: "_id", Value: "watched"}})
	facts.Must(err)
	facts.Fact("a change stream", stream.Next(ctx) && stream.Current.Lookup("documentKey", "_id").StringValue() == "watched", stream.Err())
	facts.Must(stream.Close(ctx))
}

// unacknowledged writes want no reply, and one that comes all the same must not
// be taken for that of the next command.
func unacknowledged(ctx context.Context, client *mongo.Client) {
	db := client.Database(name)
	things := db.Collection("things")
	facts.Must(db.Collection("silent").Drop(ctx))
	silent := db.Collection("silent", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	right := true
	for n := range 20 {
		_, err := silent.InsertOne(ctx, bson.D{{Key: "_id", Value: n}})
		facts.Must(err)
		got := things.FindOne(ctx, bson.D{{Key: "_id", Value: n}})
		raw, err := got.Raw()
		right = right && err == nil && raw.Lookup("_id").AsInt64() == int64(n)
	}
	var there int64
	for range 50 {
		there, _ = db.Collection("silent").CountDocuments(ctx, bson.D{})
		if there == 20 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	facts.Fact("twenty unacknowledged writes among reads: each read has its own answer", right && there == 20, right, there)
}

// refusals are those of a database that has spent its rate.
func refusals(ctx context.Context, client *mongo.Client, w *watch) {
	things := client.Database("spent").Collection("things")
	for what, op := range map[string]func() error{
		"a read":  func() error { return things.FindOne(ctx, bson.D{}).Err() },
		"a write": func() error { _, err := things.InsertOne(ctx, bson.D{{Key: "from", Value: name}}); return err },
	} {
		w.clear()
		err := op()
		facts.Fact(what+" is refused with 462 and both labels", refused(err), err)
		seen := w.get()
		facts.Fact(fmt.Sprintf("%s: %d attempts, on connections that are there", what, attempts), len(seen.began) == attempts && seen.created+seen.closed == 0,
			len(seen.began), seen.created, seen.closed)
	}
	direct := connect(nil, "DIRECT")
	n, err := direct.Database("spent").Collection("things").CountDocuments(ctx, bson.D{{Key: "from", Value: name}})
	facts.Fact("a refused write is not at the server", n == 0 && err == nil, n, err)
}

// waits: backoff is jitter times base times two to the number of the retry,
// counted from one.
func waits(ctx context.Context, client *mongo.Client, w *watch) {
	things := client.Database("spent").Collection("things")
	worst, total, n := 0.0, 0.0, 0
	for range 10 {
		w.clear()
		timed, cancel := context.WithTimeout(ctx, 800*time.Millisecond)
		_ = things.FindOne(timed, bson.D{}).Err()
		cancel()
		seen := w.get()
		for i := range min(2, len(seen.began)-1, len(seen.bases)) {
			share := float64(seen.began[i+1].Sub(seen.ended[i])) / float64(2*seen.bases[i]<<i)
			worst, total, n = max(worst, share), total+share, n+1
		}
	}
	mean := total / float64(max(n, 1))
	facts.Brisk(fmt.Sprintf("it waits between attempts as baseBackoffMS says: at most %.2f of it, %.2f on average of %d", worst, mean, n),
		worst < 1.5 && mean > 0.2 && mean < 0.9, worst, mean, n)
}

// third: eight ask for about half as much again as the rate.
func third(ctx context.Context, client *mongo.Client, w *watch) {
	w.clear()
	done, failed, other := facts.Rush(func() error {
		err := client.Database("third").Collection("things").FindOne(ctx, bson.D{}).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	}, refused)
	seen := w.get()
	facts.Fact(fmt.Sprintf("overloaded, every failure is 462 and no connection is lost: %d of 320 operations failed in %d attempts", failed, len(seen.began)),
		other == nil && seen.created <= 8 && seen.closed == 0 && done > 100, done, other, seen.created, seen.closed)
	again := len(seen.began) - done
	facts.Brisk(fmt.Sprintf("%d %% of the attempts were refused", 100*again/len(seen.began)), again > 50, again)
}

// inOtherWays does a little over TLS, and compressed.
func inOtherWays(ctx context.Context) {
	secure := connect(nil, "TLS").Database(name).Collection("things")
	_, err := secure.InsertOne(ctx, bson.D{{Key: "_id", Value: "tls"}})
	facts.Fact("the same over TLS to the gate", err == nil, err)
	if os.Getenv("SQUEEZED") == "" {
		return
	}
	for _, how := range []string{"zlib", "snappy", "zstd"} {
		client := connect(nil, "SQUEEZED", func(o *options.ClientOptions) { o.SetCompressors([]string{how}) })
		things := client.Database(name).Collection("squeezed")
		facts.Must(things.Drop(ctx))
		docs := make([]any, 200)
		for n := range docs {
			docs[n] = bson.D{{Key: "_id", Value: n}, {Key: "pad", Value: fmt.Sprintf("%0200d", n)}}
		}
		_, err := things.InsertMany(ctx, docs)
		facts.Must(err)
		var all []bson.D
		c, err := things.Find(ctx, bson.D{}, options.Find().SetBatchSize(50))
		facts.Must(err)
		facts.Must(c.All(ctx, &all))
		err = soon(ctx, client.Database("spent").Collection("things"))
		after := things.FindOne(ctx, bson.D{{Key: "_id", Value: 7}}).Err()
		facts.Fact("compressed with "+how+": 200 documents in and out, a refusal that is not, and on", len(all) == 200 && refused(err) && after == nil, len(all), err, after)
	}
}
