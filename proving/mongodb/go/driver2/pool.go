package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/admitd/admitd/proving/mongodb/go/facts"
)

// pools of few connections: operations wait for one in the driver, and who backs
// off lends its own to others.
func pools(ctx context.Context) {
	w := &watch{}
	client := connect(w, "GATE", func(o *options.ClientOptions) { o.SetMaxPoolSize(2) })
	things := client.Database(name).Collection("things")
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 40 {
		wg.Go(func() {
			if err := things.FindOne(ctx, bson.D{}).Err(); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	s := w.get()
	facts.Fact("a pool of two: forty operations at once over two connections", failed.Load() == 0 && s.created <= 2 && s.most <= 2, failed.Load(), s.created, s.most)

	w.clear()
	spent := client.Database("spent").Collection("things")
	for range 20 {
		wg.Go(func() {
			if !refused(soon(ctx, spent)) {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	s = w.get()
	facts.Fact("twenty that are refused at once: no connection is lost or kept", failed.Load() == 0 && s.closed == 0 && s.created == 0 && s.out == 0 && s.most <= 2,
		failed.Load(), s.created, s.closed, s.out, s.most)
	facts.Must(client.Disconnect(ctx))
	lends(ctx)
}

// soon reads with a deadline, so that the gate asks for short waits.
func soon(ctx context.Context, things *mongo.Collection) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return things.FindOne(ctx, bson.D{}).Err()
}

// lends shows that one connection serves others while its operation backs off.
func lends(ctx context.Context) {
	w := &watch{}
	client := connect(w, "GATE", func(o *options.ClientOptions) { o.SetMaxPoolSize(1) })
	things, spent := client.Database(name).Collection("things"), client.Database("spent").Collection("things")
	_ = things.FindOne(ctx, bson.D{}).Err() // connected
	w.clear()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 3 {
			_ = soon(ctx, spent)
		}
	}()
	between := 0
	for open := true; open; {
		select {
		case <-ended:
			open = false
		default:
			_ = things.FindOne(ctx, bson.D{}).Err()
			if s := w.get(); len(s.ended) > 0 && len(s.ended) < 3 { // the first is refused, and not given up
				between++
			}
			time.Sleep(time.Millisecond)
		}
	}
	s := w.get()
	facts.Fact("a pool of one: others are served while an operation backs off", between > 0 && s.created == 0 && s.closed == 0, between, s.created, s.closed)
	facts.Must(client.Disconnect(ctx))
}

// monitors: the hello of a monitor is answered again and again.
func monitors(ctx context.Context) {
	w := &watch{}
	client := connect(w, "GATE", func(o *options.ClientOptions) { o.SetHeartbeatInterval(500 * time.Millisecond) })
	_ = client.Ping(ctx, nil)
	for began := time.Now(); w.get().streamed < 4 && time.Since(began) < 20*time.Second; {
		time.Sleep(50 * time.Millisecond)
	}
	s := w.get()
	facts.Fact("the monitor's hello streams: four answers that were waited for, by one connection", s.streamed >= 4 && s.closed == 0, s.streamed, s.closed)
	facts.Must(client.Disconnect(ctx))
}
