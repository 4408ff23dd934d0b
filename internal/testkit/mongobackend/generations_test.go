package mongobackend_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	eventv1 "go.mongodb.org/mongo-driver/event"
	mongov1 "go.mongodb.org/mongo-driver/mongo"
	optionsv1 "go.mongodb.org/mongo-driver/mongo/options"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// connectV1 returns a client of the driver's first generation, which announces
// nothing about backpressure.
func connectV1(t *testing.T, addr string, m *eventv1.CommandMonitor) *mongov1.Client {
	t.Helper()
	o := optionsv1.Client().ApplyURI("mongodb://" + addr + "/?serverSelectionTimeoutMS=8000")
	if m != nil {
		o.SetMonitor(m)
	}
	c, err := mongov1.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return c
}

// A silent client never retries: it sees the refusal after one attempt.
func TestSilentClientTriesOnce(t *testing.T) {
	s, addr := startGate(t, startBackend(t).Addr(), never(), mongogate.Options{})
	e := &events{started: map[string]int{}}
	c := connectV1(t, addr, &eventv1.CommandMonitor{Started: func(_ context.Context, s *eventv1.CommandStartedEvent) { e.count(s.CommandName) }})
	_ = c.Ping(t.Context(), nil) // takes the only token
	coll := c.Database("shop").Collection("orders")
	overloaded(t, coll.FindOne(t.Context(), bson.D{}).Err(), true)
	_, err := coll.InsertOne(t.Context(), bson.D{})
	overloaded(t, err, true)
	if f, i := e.take("find"), e.take("insert"); f != 1 || i != 1 {
		t.Errorf("find was started %d times, insert %d; want 1, 1", f, i)
	}
	if st := s.Status().Clients; st.Silent == 0 || st.Hinted != 0 {
		t.Errorf("clients %+v; want silent ones only", st)
	}
}

// A silent client is served from the short queue instead: 16 at a time on a
// backend that is allowed 4 all succeed.
func TestSilentClientsWait(t *testing.T) {
	p := &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return fixed(4) }, QueueDepth: 64, MaxWait: 5 * time.Second,
	}}
	s, addr := startGate(t, startBackend(t).Addr(), p, mongogate.Options{Refusal: mongogate.Refusal{WaitAnnounced: -1}})
	c := connectV1(t, addr, nil)
	coll := c.Database("shop").Collection("orders")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if err := coll.FindOne(t.Context(), bson.D{}).Err(); err != nil {
					t.Errorf("find: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := s.Status().RequestRateLimiter.RejectedAdmissions; n != 0 {
		t.Errorf("%d refusals, want none", n)
	}
}

// fixed is a limit that never moves.
type fixed int

// Current implements [limiter.Limit].
func (f fixed) Current() int { return int(f) }

// Observe implements [limiter.Limit].
func (fixed) Observe(int64, time.Duration, int, bool) {}
