package mongobackend_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// TLS on both sides, with a client certificate on both: commands of any size
// pass, refusals come, and the drain is clean.
func TestTLS(t *testing.T) {
	cert, pool := keypair.New(t, "127.0.0.1")
	server := &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	client := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}

	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	modelDone := make(chan error, 1)
	model := modelmongo.New(1, 0)
	go func() { modelDone <- model.Serve(ctx, tls.NewListener(inner, server)) }()
	defer func() { cancel(); <-modelDone }()

	s, err := mongogate.New(limiter.New("test", &limiter.Policy{
		Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 200},
	}, limiter.Options{}), mongogate.Options{Backends: []string{inner.Addr().String()}, BackendTLS: client})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hall := ingress.NewServer("test", s, ingress.Options{TLS: server, DrainTimeout: 5 * time.Second})
	served := make(chan error, 1)
	go func() { served <- hall.Serve(context.Background(), l) }()

	coll := connect(t, l.Addr().String(), options.Client().SetTLSConfig(client)).Database("shop").Collection("orders")
	if err := coll.FindOne(t.Context(), bson.D{}).Err(); err != nil {
		t.Errorf("find: %v", err)
	}
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "a", Value: make([]byte, 1<<20)}}); err != nil {
		t.Errorf("insert of 1 MiB: %v", err)
	}
	overloaded(t, coll.FindOne(t.Context(), bson.D{}).Err(), true) // both tokens are spent
	if err := hall.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
