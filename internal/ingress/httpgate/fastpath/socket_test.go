package fastpath_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// What is written right before a connection is closed arrives, over TLS too, which
// sets a deadline in the past once it has said farewell: while the socket below held
// writes back, both were lost. Here without net/http, which waits before it closes.
func TestWhatIsSaidBeforeAClose(t *testing.T) {
	t.Run("plain", func(t *testing.T) { saysBye(t, nil, nil) })
	t.Run("TLS", func(t *testing.T) {
		server, client := keypair.Ends(t, "gate")
		saysBye(t, server, client)
	})
}

func saysBye(t *testing.T, server, client *tls.Config) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		c = fastpath.Socket(c)
		if server != nil {
			c = tls.Server(c, server)
		}
		for range 10 {
			_, _ = io.WriteString(c, "good")
		}
		_, _ = io.WriteString(c, "bye")
		_ = c.Close()
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if client != nil {
		c = tls.Client(c, client)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "goodgoodgoodgoodgoodgoodgoodgoodgoodgoodbye" {
		t.Errorf("%q, %v; want all that was written", got, err)
	}
}
