package ingress_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/ingress"
)

// A door that closes turns away who has not sent a PROXY header yet, at once,
// and does not blame the client.
func TestCloseDuringProxyHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newEvents()
		door := ingress.NewDoor("test", ingress.Options{Observer: seen, ProxyProtocol: true})
		pipes := newPipeListener()
		ln := door.Listen(t.Context(), pipes)
		client := pipes.dial()
		defer client.Close()
		synctest.Wait()
		if err := ln.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if why := <-seen.refused; why != ingress.Draining {
			t.Errorf("refused for %v, want draining", why)
		}
	})
}

// The header may arrive while the door closes: whichever comes first, the place
// is given back. For the race detector.
func TestProxyHeaderMeetsClose(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			door := ingress.NewDoor("test", ingress.Options{ProxyProtocol: true})
			pipes := newPipeListener()
			ln := door.Listen(ctx, pipes)
			client := pipes.dial()
			defer client.Close()
			go func() { _, _ = io.WriteString(client, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n") }()
			go cancel()
			if c, err := ln.Accept(); err == nil {
				_ = c.Close()
			}
			_ = client.Close()
			_ = ln.Close()
			if st := door.Status(); st.Open != 0 {
				t.Fatalf("%d connections are open, want none", st.Open)
			}
		})
	}
}
