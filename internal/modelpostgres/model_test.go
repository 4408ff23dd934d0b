package modelpostgres_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/modelpostgres"
)

// Queries wait for a worker, and a restart answers those that wait.
func TestModel(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := modelpostgres.New(1, time.Hour)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	answered := make(chan error, 3)
	for range 3 {
		c, err := modelpostgres.Dial(ctx, ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() { answered <- c.Query("select 1") }()
	}
	for got := 0; got < 2; { // one of them has the worker
		s.Restart()
		select {
		case err := <-answered:
			if got++; err != nil {
				t.Errorf("Query: %v", err)
			}
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
