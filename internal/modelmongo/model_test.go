package modelmongo_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/modelmongo"
)

// start runs a model server and returns its address.
func start(t *testing.T, s *modelmongo.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// One worker of 20 ms serves five clients in no less than 100 ms: the capacity
// is what New was told.
func TestCapacity(t *testing.T) {
	s := modelmongo.New(1, 20*time.Millisecond)
	addr := start(t, s)
	done := make(chan error, 5)
	begin := time.Now()
	for range 5 {
		go func() {
			c, err := modelmongo.Dial(t.Context(), addr, true)
			if err == nil {
				err = c.Find(t.Context(), "shop", "orders")
				_ = c.Close()
			}
			done <- err
		}()
	}
	for range 5 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if d := time.Since(begin); d < 100*time.Millisecond || s.Served() != 5 {
		t.Errorf("%d commands in %v; want 5 in at least 100ms", s.Served(), d)
	}
}

// A retryable error is told apart from one that is not.
func TestRetryable(t *testing.T) {
	both := &modelmongo.Error{Code: 462, Labels: []string{"SystemOverloadedError", "RetryableError"}}
	one := &modelmongo.Error{Code: 462, Labels: []string{"SystemOverloadedError"}}
	if !both.Retryable() || one.Retryable() {
		t.Errorf("Retryable: both labels %v, one label %v; want true, false", both.Retryable(), one.Retryable())
	}
}
