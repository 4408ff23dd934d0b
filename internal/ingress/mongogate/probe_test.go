package mongogate_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// A probe ends when nobody waits for it any more: a backend that took the connection
// and said nothing was waited for, so that several of them kept the daemon from
// starting, and from being stopped, for as many times five seconds.
func TestProbeIsNotPatient(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s, err := mongogate.New(limiter.New("db", &limiter.Policy{}, limiter.Options{}), mongogate.Options{
		Backends: []string{silent.Addr().String()}, DialTimeout: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := silent.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 1)) // the hello
		cancel()
		<-t.Context().Done() // and stays connected
	}()
	if err := s.Probe(ctx); !errors.Is(err, mongogate.ErrUnreachable) {
		t.Errorf("Probe = %v; want that the backend does not answer", err)
	}
}
