package mongobackend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/testkit/mongobackend"
	"github.com/admitd/admitd/limiter"
)

// FerretDB replies to unacknowledged writes; without the gate the driver reads
// that reply as the answer to its next command.
func TestUnacknowledgedWrites(t *testing.T) {
	s, addr := startGate(t, startBackend(t).Addr(), unlimited(), mongogate.Options{})
	c := connect(t, addr, options.Client().SetMaxPoolSize(1))
	coll := c.Database("shop").Collection("orders")
	quiet := c.Database("shop").Collection("orders", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	for i := range 10 {
		_, err := quiet.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}})
		if err != nil {
			t.Fatalf("InsertOne: %v", err)
		}
		var got struct {
			ID int `bson:"_id"`
		}
		if err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: i}}).Decode(&got); err != nil || got.ID != i {
			t.Fatalf("find %d: got %d, %v", i, got.ID, err)
		}
	}
	if n := s.Status().RequestRateLimiter.RepliesSwallowed; n != 10 {
		t.Errorf("%d replies swallowed, want 10", n)
	}
}

// A driver in load-balanced mode works through a gate that adds the serviceId,
// and one that is not is told what to do.
func TestLoadBalanced(t *testing.T) {
	_, addr := startGate(t, startBackend(t).Addr(), unlimited(), mongogate.Options{
		Topology: mongogate.Topology{Mode: mongogate.TopologyLoadBalanced},
	})
	coll := connect(t, addr, options.Client().SetLoadBalanced(true)).Database("shop").Collection("orders")
	for i := range 20 {
		if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "n", Value: i}}); err != nil {
			t.Fatalf("InsertOne: %v", err)
		}
	}
	cur, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(3))
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.D
	if err := cur.All(t.Context(), &all); err != nil || len(all) != 20 {
		t.Errorf("cursor: %d documents, %v; want 20", len(all), err)
	}
	plain, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?serverSelectionTimeoutMS=300"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Disconnect(context.Background())
	err = plain.Ping(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "loadBalanced=true") {
		t.Errorf("plain client: %v; want advice to add loadBalanced=true", err)
	}
}

// 64 clients in parallel survive that the backend dies under them and comes
// back: every failure is a network error, and afterwards all succeed again.
func TestBackendDiesUnderLoad(t *testing.T) {
	dir := t.TempDir()
	b, err := mongobackend.Start(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	_, addr := startGate(t, b.Addr(), &limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return fixed(32) }, QueueDepth: 64, MaxWait: 5 * time.Second,
	}}, mongogate.Options{})
	coll := connect(t, addr).Database("shop").Collection("orders")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	var good atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if coll.FindOne(ctx, bson.D{}).Err() == nil {
					good.Add(1)
				}
			}
		})
	}
	reach(t, &good, 200)
	b.Stop()
	b, err = mongobackend.Start(t.Context(), dir, b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	reach(t, &good, good.Load()+200)
	stop()
	wg.Wait()
	until(t, "the permits of dead commands are given back", func() bool { return coll.FindOne(t.Context(), bson.D{}).Err() == nil })
}

// reach waits until n is counted.
func reach(t *testing.T, c *atomic.Int64, n int64) {
	t.Helper()
	until(t, "enough commands succeed", func() bool { return c.Load() >= n })
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A drain under load cuts no command in half: whatever a client was answered
// is whole, and the drain ends well before its deadline.
func TestDrainUnderLoad(t *testing.T) {
	backend := startBackend(t)
	srv, err := mongogate.New(limiter.New("test", unlimited(), limiter.Options{}), mongogate.Options{Backends: []string{backend.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hall := ingress.NewServer("test", srv, ingress.Options{DrainTimeout: 10 * time.Second})
	served := make(chan error, 1)
	go func() { served <- hall.Serve(context.Background(), l) }()

	var m counting
	c := connect(t, l.Addr().String(), options.Client().SetDialer(&m).SetMaxPoolSize(32))
	coll := c.Database("shop").Collection("orders")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	var good atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if coll.FindOne(ctx, bson.D{}).Err() == nil {
					good.Add(1)
				}
			}
		})
	}
	reach(t, &good, 100)
	begin := time.Now()
	if err := hall.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("the drain took %v", d)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	stop()
	wg.Wait()
	if n := m.torn.Load(); n != 0 {
		t.Errorf("%d connections ended inside a frame", n)
	}
}

// counting dials connections that notice when they end inside a frame.
type counting struct{ torn atomic.Int64 }

// DialContext implements the driver's dialer.
func (m *counting) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &framed{Conn: c, m: m}, nil
}

// framed follows the frames that are read from a connection.
type framed struct {
	net.Conn

	m    *counting
	head []byte
	left int
}

// Read implements net.Conn.
func (f *framed) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	for _, x := range b[:n] {
		if f.left > 0 {
			f.left--
			continue
		}
		if f.head = append(f.head, x); len(f.head) == 4 {
			f.left = int(uint32(f.head[0])|uint32(f.head[1])<<8|uint32(f.head[2])<<16|uint32(f.head[3])<<24) - 4
			f.head = f.head[:0]
		}
	}
	if errors.Is(err, io.EOF) && (f.left > 0 || len(f.head) > 0) {
		f.m.torn.Add(1)
	}
	return n, err
}
