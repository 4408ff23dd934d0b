package ingress_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
)

// A connection that came in before its listener was closed is handed over, and
// only then does Accept end. It was reset once, under a client that had sent its
// request already.
func TestCloseHandsOverWhoCameIn(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := ingress.NewDoor("orders", ingress.Options{})
	l := door.Listen(t.Context(), inner)
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(10 * time.Second); door.Status().Accepted == 0; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("the connection did not come in within 10 s")
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	for { // until the inner listener is closed
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			break
		}
		_ = c.Close()
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatalf("Accept: %v; want the connection that came in before Close", err)
	}
	_ = c.Close()
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v; want net.ErrClosed", err)
	}
}
