package mongobackend_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/testkit/mongobackend"
	"github.com/admitd/admitd/limiter"
)

// startBackend runs a database for the test.
func startBackend(t *testing.T) *mongobackend.Backend {
	t.Helper()
	b, err := mongobackend.Start(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

// startGate runs a gate before the backend and returns it with its address.
func startGate(t *testing.T, backend string, p *limiter.Policy, o mongogate.Options) (*mongogate.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startGateOn(t, l, backend, p, o)
}

// startGateOn is startGate on a listener.
func startGateOn(t *testing.T, l net.Listener, backend string, p *limiter.Policy, o mongogate.Options) (*mongogate.Server, string) {
	t.Helper()
	o.Backends = append(o.Backends, backend)
	s, err := mongogate.New(limiter.New("test", p, limiter.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	hall := ingress.NewServer("test", s, ingress.Options{DrainTimeout: time.Second})
	served := make(chan error, 1)
	go func() { served <- hall.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		if err := hall.Drain(context.Background()); err != nil {
			t.Logf("drain: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// unlimited admits everything.
func unlimited() *limiter.Policy { return &limiter.Policy{Mode: limiter.Off} }

// never refuses everything that may be refused: its bucket holds one token,
// which the first command takes, and gets another after 11 days. A gate alone
// would rightly have drivers wait for seconds then; beside another one, which may
// be idle, it has them wait for a tenth at first.
func never() *limiter.Policy {
	return &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}, Gates: 2}
}

// events counts what a driver starts, by command.
type events struct {
	mu      sync.Mutex
	started map[string]int
}

// monitor returns a command monitor that counts into a fresh events.
func monitor() (*events, *event.CommandMonitor) {
	e := &events{started: map[string]int{}}
	return e, &event.CommandMonitor{Started: func(_ context.Context, s *event.CommandStartedEvent) { e.count(s.CommandName) }}
}

func (e *events) count(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started[name]++
}

// take returns how often the command was started since the last call.
func (e *events) take(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.started[name]
	delete(e.started, name)
	return n
}

// connect returns a client of the newest driver.
func connect(t *testing.T, addr string, opts ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	o := append([]*options.ClientOptions{
		options.Client().ApplyURI("mongodb://" + addr + "/?serverSelectionTimeoutMS=8000"),
	}, opts...)
	c, err := mongo.Connect(o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return c
}

// Whatever the database does, it does through the gate.
func TestEverythingPasses(t *testing.T) {
	s, addr := startGate(t, startBackend(t).Addr(), unlimited(), mongogate.Options{})
	coll := connect(t, addr).Database("shop").Collection("orders")
	ctx := t.Context()
	var docs []any
	for i := range 300 {
		docs = append(docs, bson.D{{Key: "n", Value: i}})
	}
	if _, err := coll.InsertMany(ctx, docs); err != nil {
		t.Fatalf("InsertMany: %v", err)
	}
	cur, err := coll.Find(ctx, bson.D{}, options.Find().SetBatchSize(50))
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	var all []bson.D
	if err := cur.All(ctx, &all); err != nil || len(all) != 300 {
		t.Fatalf("cursor: %d documents, %v; want 300", len(all), err)
	}
	if _, err := coll.UpdateOne(ctx, bson.D{{Key: "n", Value: 7}}, bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}}); err != nil {
		t.Errorf("UpdateOne: %v", err)
	}
	if n, err := coll.CountDocuments(ctx, bson.D{}); err != nil || n != 300 {
		t.Errorf("CountDocuments = %d, %v; want 300", n, err)
	}
	if _, err := coll.DeleteMany(ctx, bson.D{}); err != nil {
		t.Errorf("DeleteMany: %v", err)
	}
	if st := s.Status(); st.Clients.Hinted == 0 || st.RequestRateLimiter.SuccessfulAdmissions == 0 {
		t.Errorf("Status = %+v; want hinted clients and admissions", st)
	}
}
